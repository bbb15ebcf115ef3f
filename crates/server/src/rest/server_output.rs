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
            let line: String = line.chars().take(SHOWN_CHARS).collect();
            format!("its last output was: {line}; `toolbooth servers logs {name}` shows more")
        }
        // It may only need more time.
        None if code == "server.start-timeout" => return None,
        None => "it wrote nothing to standard error; run its command by hand to see what it does".into(),
    })
}

/// The last line that reports an error, else the last one. A program that rejects its arguments often prints its usage
/// after the error, and a program that installs packages its advice.
fn reason_line(lines: &[String]) -> Option<String> {
    let start = lines.len().saturating_sub(REASON_LINES);
    let filled: Vec<&str> =
        lines[start..].iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let reason = match filled.iter().rposition(|line| reports_error(line)) {
        Some(last) if is_of_installer(filled[last]) => installer_reason(&filled[..=last]),
        Some(last) => filled[last],
        None => return resolver_reason(&filled).or_else(|| filled.last().map(|line| (*line).to_owned())),
    };
    Some(reason.to_owned())
}

/// Whether a line begins as an error message does: `Error: …`, `error[E1]: …`, `ValueError: …`, `app.py: error: …`.
fn reports_error(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    if line.contains(": error: ") || npm_text(&line).is_some() {
        // npm ends with the place of its log, which is not the reason.
        return !line.contains("complete log");
    }
    let first: String = line.chars().take_while(|c| !c.is_whitespace() && !":([".contains(*c)).collect();
    ["error", "exception", "fatal", "panic"].iter().any(|word| first.ends_with(word))
}

/// What npm says in a line about an error.
fn npm_text(line: &str) -> Option<&str> {
    ["npm error", "npm err!", "npm ERR!"].iter().find_map(|start| line.strip_prefix(start)).map(str::trim)
}

/// Whether a line is from a program that installs packages, which prints more than the reason.
fn is_of_installer(line: &str) -> bool {
    npm_text(line).is_some() || line.starts_with("Error installing ")
}

/// The line of an installer that names the reason, among lines that end with an error of it.
fn installer_reason<'a>(lines: &[&'a str]) -> &'a str {
    // The words of npm, and of pip under pipx.
    const REASONS: [&str; 6] = [
        "is not in this registry",
        "could not be found or you do not have permission",
        "No matching version found",
        "No matching distribution found",
        "failed, reason:",
        "could not determine executable",
    ];
    // npm says more about these in other lines.
    const DETAILS: [&str; 6] = ["code ", "errno ", "syscall ", "path ", "dest ", "cwd "];
    let last = lines.last().copied().unwrap_or_default();
    let named = lines.iter().rev().find(|line| REASONS.iter().any(|reason| line.contains(reason)));
    let block = lines.iter().rev().take_while(|line| npm_text(line).is_some());
    let says_more = |line: &&&str| {
        let text = npm_text(line).unwrap_or_default();
        !text.is_empty() && !DETAILS.iter().any(|detail| text.starts_with(detail))
    };
    named.or_else(|| block.filter(says_more).last()).map_or(last, |line| *line)
}

/// The conclusion of uv, which is a tree with one branch: `╰─▶ Because … was not found in the package registry …`.
fn resolver_reason(lines: &[&str]) -> Option<String> {
    let first = lines.iter().rposition(|line| line.starts_with("╰─▶"))?;
    let text: Vec<&str> = lines[first..].iter().map(|line| line.trim_start_matches("╰─▶").trim()).collect();
    Some(text.join(" "))
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
            assert_eq!(reason_of(lines).as_deref(), Some(expected));
        }
        assert_eq!(reason_line(&[]), None);
    }

    fn reason_of(lines: &[&str]) -> Option<String> {
        reason_line(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_reason_of_an_installer_is_shown_rather_than_its_advice() {
        let cases = [
            (
                &[
                    "npm error code E404",
                    "npm error 404 Not Found - GET https://registry.npmjs.org/nope - Not found",
                    "npm error 404",
                    "npm error 404  'nope@*' is not in this registry.",
                    "npm error 404",
                    "npm error 404 Note that you can also install from a",
                    "npm error 404 tarball, folder, http url, or git folder.",
                    "npm error A complete log of this run can be found in: x",
                ][..],
                "npm error 404  'nope@*' is not in this registry.",
            ),
            (
                &[
                    "npm ERR! code E404",
                    "npm ERR! 404  'nope@1.0.0' is not in this registry.",
                    "npm ERR! 404 You should bug the author to publish it (or use the name yourself!)",
                ],
                "npm ERR! 404  'nope@1.0.0' is not in this registry.",
            ),
            (
                &[
                    "npm error code ETARGET",
                    "npm error notarget No matching version found for x@9.9.9.",
                    "npm error notarget In most cases you or one of your dependencies are requesting",
                    "npm error notarget a package version that doesn't exist.",
                ],
                "npm error notarget No matching version found for x@9.9.9.",
            ),
            (
                &[
                    "npm error code ENOTFOUND",
                    "npm error syscall getaddrinfo",
                    "npm error network request to https://r.example/x failed, reason: getaddrinfo ENOTFOUND",
                    "npm error network This is a problem related to network connectivity.",
                ],
                "npm error network request to https://r.example/x failed, reason: getaddrinfo ENOTFOUND",
            ),
            (
                &[
                    "npm error code EACCES",
                    "npm error syscall mkdir",
                    "npm error path /x",
                    "npm error errno -13",
                    "npm error Your cache folder contains root-owned files, due to a bug in",
                    "npm error previous versions of npm which has since been addressed.",
                ],
                "npm error Your cache folder contains root-owned files, due to a bug in",
            ),
            (
                &["npm error could not determine executable to run", "npm error A complete log: x"],
                "npm error could not determine executable to run",
            ),
            (
                &[
                    "ERROR: Could not find a version that satisfies the requirement nope (from versions: none)",
                    "ERROR: No matching distribution found for nope",
                    "[notice] A new release of pip is available: 25.0 -> 26.0",
                ],
                "ERROR: No matching distribution found for nope",
            ),
            (
                &[
                    "Fatal error from pip prevented installation. Full pip output in file:",
                    "    ERROR: No matching distribution found for nope",
                    "Error installing nope.",
                ],
                "ERROR: No matching distribution found for nope",
            ),
            (
                &[
                    "  × No solution found when resolving tool dependencies:",
                    "  ╰─▶ Because nope was not found in the package registry and you require",
                    "      nope, we can conclude that your requirements are unsatisfiable.",
                ],
                "Because nope was not found in the package registry and you require nope, we can conclude that your \
                 requirements are unsatisfiable.",
            ),
            // A later failure of the program itself.
            (
                &["npm error 404  'nope@*' is not in this registry.", "Error: API_KEY is required"],
                "Error: API_KEY is required",
            ),
        ];
        for (lines, expected) in cases {
            assert_eq!(reason_of(lines).as_deref(), Some(expected));
        }
    }
}
