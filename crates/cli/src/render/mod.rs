//! Terminal output: faults, tables, colours, and sanitised text.

mod frame;
mod paint;
mod table;
mod time;

pub use frame::{TextFrame, framed};
pub use paint::{Paint, Tone};
pub use table::{Table, TableCell};
pub use time::{ago, moment, wall_ms};

use crate::failure::CommandFailure;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use toolbooth_core::lint::revealed;

/// Renders a failure.
pub fn failure(failure: &CommandFailure, paint: Paint) -> String {
    if let Some(drawn) = &failure.drawn {
        return finding(drawn, paint);
    }
    let fault = &failure.fault;
    let head = format!("error[{}]", line(&fault.code));
    // A message may quote untrusted text; its lines must not start at the left edge.
    let message = plain(&fault.message).replace('\n', "\n  ");
    let text = wrap(&format!("{head}: {message}"), 2);
    let mut text = format!("{}\n", text.replacen(&head, &paint.tone(Tone::Bad, &head), 1));
    if let Some(hint) = &fault.hint {
        text.push_str(&format!("\n{}: {}\n", paint.tone(Tone::Strong, "hint"), wrap(&plain(hint), 6)));
    }
    text
}

/// Adds colours to rendered findings of a configuration.
pub fn finding(drawn: &str, paint: Paint) -> String {
    let mut text = String::with_capacity(drawn.len() + 64);
    for line in drawn.lines() {
        let (word, tone) = match line.split_once(['[', ':']) {
            Some(("error", _)) => ("error", Tone::Bad),
            Some(("warning", _)) => ("warning", Tone::Warn),
            Some(("hint", _)) => ("hint", Tone::Strong),
            _ => ("", Tone::Strong),
        };
        let end = if line[word.len()..].starts_with('[') {
            line.find(']').map_or(word.len(), |at| at + 1)
        } else {
            word.len()
        };
        if word.is_empty() {
            text.push_str(line);
        } else {
            text.push_str(&paint.tone(tone, &line[..end]));
            text.push_str(&line[end..]);
        }
        text.push('\n');
    }
    text
}

/// Sanitises untrusted text: it cannot move the cursor, change colours, reverse the direction or hide characters.
pub fn plain(text: &str) -> String {
    revealed(text).into_owned()
}

/// The same on one line.
pub fn line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Wraps text to the width of the terminal; all lines but the first are indented. Without a terminal it stays one line.
pub fn wrap(text: &str, indent: usize) -> String {
    wrap_at(&with_short_home(text), indent, table::width().map(|width| usize::from(width).clamp(40, 100)))
}

fn wrap_at(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut out = String::with_capacity(text.len() + 32);
    let mut column = indent;
    for word in unbreakable(text) {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(&word);
        column += length;
    }
    out
}

/// Splits text into words. A command in backticks is one word, so that it can be copied.
fn unbreakable(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match words.last_mut() {
            Some(last) if last.matches('`').count() % 2 == 1 && last.len() < 50 => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// The fault code of lost output.
const OUTPUT_FAILED: &str = "output.failed";
/// Whether standard output could not be written. Global, because a process has one standard output.
static OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

/// Writes to standard output. A reader that closes the pipe, such as `head`, is not an error; a full disk is, and
/// [`output_lost`] reports it at the end.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        lost_output(&error);
    }
}

/// Records and reports that standard output could not be written.
pub fn lost_output(error: &std::io::Error) {
    if error.kind() != ErrorKind::BrokenPipe && !OUTPUT_LOST.swap(true, Ordering::Relaxed) {
        complain(&format!("error[{OUTPUT_FAILED}]: standard output cannot be written: {}\n", error.kind()));
    }
}

/// Whether output was lost, so that the command must fail.
pub fn output_lost() -> bool {
    OUTPUT_LOST.load(Ordering::Relaxed)
}

/// Writes to standard error.
pub fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes a value as JSON for programs.
pub fn print_json<T: Serialize + ?Sized>(value: &T) {
    print_raw_json(&serde_json::to_string_pretty(value).unwrap_or_default());
}

/// Writes JSON text for programs. On a terminal it is sanitised; otherwise it is unchanged.
pub fn print_raw_json(text: &str) {
    let terminal = std::io::stdout().is_terminal();
    print(&if terminal { plain(text) + "\n" } else { format!("{text}\n") });
}

/// "1 tool", "2 tools".
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Replaces the home folder in a text by `~`.
fn with_short_home(text: &str) -> String {
    match std::env::var("HOME") {
        Ok(home) if home.len() > 1 => text.replace(&format!("{}/", home.trim_end_matches('/')), "~/"),
        _ => text.to_owned(),
    }
}

/// Formats a path with `~` for the home folder.
pub fn path(path: &std::path::Path) -> String {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let shown = match home.and_then(|home| path.strip_prefix(home).ok().map(std::path::Path::to_owned)) {
        Some(rest) => std::path::Path::new("~").join(rest).display().to_string(),
        None => path.display().to_string(),
    };
    line(&shown)
}

/// A word of a shell command, in quotes if necessary.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%…".contains(c);
    match word.chars().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A path as a word of a shell command.
pub fn shell_path(path: &std::path::Path) -> String {
    let shown = self::path(path);
    let below_home = shown.strip_prefix("~/").unwrap_or(&shown);
    match shell_word(below_home) == below_home {
        true => shown,
        // In quotes, a shell does not expand `~`.
        false => shell_word(&line(&path.display().to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_a_shell_if_necessary() {
        let cases = [("/a/b.key", "/a/b.key"), ("/a b/c", "'/a b/c'"), ("/it's", r"'/it'\''s'")];
        for (path, expected) in cases {
            assert_eq!(shell_path(std::path::Path::new(path)), expected);
        }
    }

    #[test]
    fn untrusted_text_is_sanitised() {
        let cases = [
            ("plain text, grüße", "plain text, grüße"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("\u{9b}31mred", "\\u{9b}31mred"),
            ("over\rwritten", "over\\rwritten"),
            ("\u{202e}sdrawkcab", "\\u{202e}sdrawkcab"),
            ("hid\u{200b}den\u{e0041}", "hid\\u{200b}den\\u{e0041}"),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text), expected, "{text:?}");
        }
        assert_eq!(line(" one\n two\t three "), "one two three");
    }

    #[test]
    fn wrapped_lines_are_indented() {
        assert_eq!(wrap_at("one two three four", 3, Some(12)), "one two\n   three\n   four");
        assert_eq!(wrap_at("averyveryverylongword it is", 2, Some(10)), "averyveryverylongword\n  it is");
        assert_eq!(wrap_at("see `a b` or not", 0, Some(7)), "see\n`a b`\nor not");
        assert_eq!(wrap_at("one two three four", 3, None), "one two three four");
    }

    #[test]
    fn findings_are_coloured_at_their_first_word_only() {
        let drawn = "error[config.syntax]: x\n --> f:1:1\nhint: error[no]\n";
        assert_eq!(finding(drawn, Paint::Never), drawn);
        let coloured = finding(drawn, Paint::Always);
        assert!(
            coloured.starts_with("\u{1b}[1;31merror[config.syntax]\u{1b}[0m: x\n --> f:1:1\n"),
            "{coloured:?}"
        );
        assert!(coloured.ends_with("\u{1b}[1mhint\u{1b}[0m: error[no]\n"), "{coloured:?}");
    }
}
