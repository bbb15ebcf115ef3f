//! How things look on a terminal: faults, tables, colours, and text from outside made harmless.

mod frame;
mod paint;
mod table;
mod time;

pub use frame::{Frame, framed};
pub use paint::{Paint, Tone};
pub use table::{Cell, Table};
pub use time::{ago, moment};

use crate::failure::Failure;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use toolbooth_core::lint::revealed;

/// A failure as people read it.
pub fn failure(failure: &Failure, paint: Paint) -> String {
    if let Some(drawn) = &failure.drawn {
        return finding(drawn, paint);
    }
    let trouble = &failure.trouble;
    let head = format!("error[{}]", line(&trouble.code));
    // A sentence may quote somebody; none of its lines begins where ours do.
    let message = plain(&trouble.message).replace('\n', "\n  ");
    let text = wrap(&format!("{head}: {message}"), 2);
    let mut text = format!("{}\n", text.replacen(&head, &paint.tone(Tone::Bad, &head), 1));
    if let Some(hint) = &trouble.hint {
        text.push_str(&format!("\n{}: {}\n", paint.tone(Tone::Strong, "hint"), wrap(&plain(hint), 6)));
    }
    text
}

/// Drawn findings of a configuration, in colour where that is wanted.
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

/// Text from outside, made harmless: it cannot move the cursor, change colours, read backwards or hide anything.
pub fn plain(text: &str) -> String {
    revealed(text).into_owned()
}

/// The same on one line.
pub fn line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Prose in lines that fit, all but the first set in by `indent`. Without a terminal it stays on one.
pub fn wrap(text: &str, indent: usize) -> String {
    wrap_at(&homely(text), indent, table::width().map(|width| usize::from(width).clamp(40, 100)))
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

/// Words; a command in backticks is one, so that it can be copied.
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

/// The code of output that did not get out.
const OUTPUT_FAILED: &str = "output.failed";
/// Whether something that was to be printed did not get out. One process has one standard output.
static OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

/// Writes to standard output. A reader that closes the pipe, such as `head`, is not an error; a full disk is, and
/// [`output_lost`] reports it at the end.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        lost_output(&error);
    }
}

/// Notes that standard output could not be written.
pub fn lost_output(error: &std::io::Error) {
    if error.kind() != ErrorKind::BrokenPipe && !OUTPUT_LOST.swap(true, Ordering::Relaxed) {
        complain(&format!("error[{OUTPUT_FAILED}]: standard output cannot be written: {}\n", error.kind()));
    }
}

/// Whether some output was lost, so that the command must not say that all went well.
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

/// Writes JSON text for programs. On a terminal nothing in it can do harm; elsewhere it stays as it is.
pub fn print_raw_json(text: &str) {
    let terminal = std::io::stdout().is_terminal();
    print(&if terminal { plain(text) + "\n" } else { format!("{text}\n") });
}

/// "1 tool", "2 tools".
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Text in which paths below home begin with `~`.
fn homely(text: &str) -> String {
    match std::env::var("HOME") {
        Ok(home) if home.len() > 1 => text.replace(&format!("{}/", home.trim_end_matches('/')), "~/"),
        _ => text.to_owned(),
    }
}

/// A path as people write it: home is `~`.
pub fn path(path: &std::path::Path) -> String {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let shown = match home.and_then(|home| path.strip_prefix(home).ok().map(std::path::Path::to_owned)) {
        Some(rest) => std::path::Path::new("~").join(rest).display().to_string(),
        None => path.display().to_string(),
    };
    line(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_stays_where_it_is() {
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
    fn prose_is_set_in() {
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
