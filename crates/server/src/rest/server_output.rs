//! The line of a failed server's output that most likely has the reason.

use toolbooth_core::server::Transport;
use toolbooth_upstream::{ServerState, Supervised};

/// How many of the last lines are searched for the reason of a failure.
const REASON_LINES: usize = 20;
/// How many characters of the line are shown.
const SHOWN_CHARS: usize = 200;

/// A hint with the line of a failed process that most likely has the reason.
pub(super) fn output_hint(server: &Supervised, state: &ServerState) -> Option<String> {
    let code = state.problem()?.code;
    let with_output = [
        "server.lost",
        "server.start-failed",
        "server.start-timeout",
        "server.bad-answer",
        "server.unreachable",
        "server.flood",
        "call.timeout",
    ];
    if !with_output.contains(&code)
        || !matches!(server.entry.transport, Transport::Stdio { .. } | Transport::Bundled(_))
    {
        return None;
    }
    let name = &server.entry.name;
    Some(match reason_line(&server.stderr.lines()) {
        Some(line) => {
            let line: String = line.trim().chars().take(SHOWN_CHARS).collect();
            format!("its last output was: {line}; `toolbooth servers logs {name}` shows more")
        }
        // It may only need more time.
        None if code == "server.start-timeout" => return None,
        None => "it wrote nothing to standard error; run its command by hand to see what it does".into(),
    })
}

/// The last line that reports an error, else the last one. A program that rejects its arguments often prints its usage
/// after the error.
fn reason_line(lines: &[String]) -> Option<&str> {
    let filled = || {
        let last = lines.iter().rev().take(REASON_LINES).map(String::as_str);
        last.filter(|line| !line.trim().is_empty())
    };
    filled().find(|line| reports_error(line)).or_else(|| filled().next())
}

/// Whether a line begins as an error message does: `Error: …`, `error[E1]: …`, `ValueError: …`, `app.py: error: …`.
fn reports_error(line: &str) -> bool {
    let line = line.trim().to_ascii_lowercase();
    if line.contains(": error: ") || line.starts_with("npm error") || line.starts_with("npm err!") {
        // npm ends with the place of its log, which is not the reason.
        return !line.contains("complete log");
    }
    let first: String = line.chars().take_while(|c| !c.is_whitespace() && !":([".contains(*c)).collect();
    ["error", "exception", "fatal", "panic"].iter().any(|word| first.ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Many programs print their usage after the error.
    #[test]
    fn the_error_is_shown_rather_than_the_usage_after_it() {
        let cases = [
            (
                &["starting", "Error: no folder given", "", "Usage: fs [FOLDER]..."][..],
                "Error: no folder given",
            ),
            (&["usage: x.py [-h] --db DB", "x.py: error: --db is required"], "x.py: error: --db is required"),
            (&["Traceback:", "  File \"x.py\"", "KeyError: 'TOKEN'"], "KeyError: 'TOKEN'"),
            (
                &[
                    "npm error 404 'nope' is not in this registry.",
                    "npm error A complete log of this run can be found in: x",
                ],
                "npm error 404 'nope' is not in this registry.",
            ),
            (&["error[config]: bad key", "  --> a.toml:1"], "error[config]: bad key"),
            (&["listening", "bye", "  "], "bye"),
        ];
        for (lines, expected) in cases {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(reason_line(&lines), Some(expected));
        }
        assert_eq!(reason_line(&[]), None);
    }
}
