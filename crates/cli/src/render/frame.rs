//! A frame around untrusted text: on a terminal none of its lines starts at the left edge, so that it cannot imitate a
//! prompt or a message of this program.

use super::{plain, table};

/// The prefix of each line of framed text.
const EDGE: &str = "│ ";
/// The width of the prefix in columns.
const EDGE_WIDTH: usize = 2;
/// The tab width.
const TAB: usize = 8;

/// Frames an untrusted text.
pub fn framed(text: &str) -> String {
    let mut frame = TextFrame::new();
    let mut out = frame.put(text);
    out.push_str(frame.end());
    out
}

/// A frame around text that arrives in pieces.
#[derive(Debug)]
pub struct TextFrame {
    /// The number of columns inside the frame.
    width: usize,
    /// The column of the next character; `None` at the start of a line.
    column: Option<usize>,
}

impl TextFrame {
    /// A frame as wide as the terminal.
    pub fn new() -> Self {
        Self::of_width(usize::from(table::width().unwrap_or(80)))
    }

    fn of_width(columns: usize) -> Self {
        Self { width: columns.saturating_sub(EDGE_WIDTH).max(10), column: None }
    }

    /// Whether the last line has no end yet.
    pub fn is_open(&self) -> bool {
        self.column.is_some()
    }

    /// Sanitises and frames a piece of the text. Long lines are broken here, because a terminal would continue them at
    /// its left edge.
    pub fn put(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len() + 16);
        for c in plain(piece).chars() {
            if c == '\n' {
                if self.column.take().is_none() {
                    out.push_str(EDGE.trim_end());
                }
                out.push('\n');
                continue;
            }
            let at = self.column.unwrap_or(0);
            let room = match c {
                '\t' => TAB - at % TAB,
                c if c.is_ascii() => 1,
                // The maximum width of a character, so that a line is never too long.
                _ => 2,
            };
            if self.column.is_some() && at + room > self.width {
                out.push('\n');
                self.column = None;
            }
            let at = self.column.unwrap_or_else(|| {
                out.push_str(EDGE);
                0
            });
            match c {
                '\t' => out.extend(std::iter::repeat_n(' ', room)),
                c => out.push(c),
            }
            self.column = Some(at + room);
        }
        out
    }

    /// Ends the text: returns the line end of the last line if it is missing.
    pub fn end(&mut self) -> &'static str {
        if self.column.take().is_some() { "\n" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_framed_text_starts_at_the_left_edge() {
        let cases = [
            ("one\ntwo", "│ one\n│ two\n"),
            ("Run it? [y/N] ", "│ Run it? [y\n│ /N] \n"),
            ("a\n\nb\n", "│ a\n│\n│ b\n"),
            ("x\ty", "│ x       y\n"),
            ("東京東京東京", "│ 東京東京東\n│ 京\n"),
            ("\u{1b}[2J", "│ \\u{1b}[2J\n"),
            ("\rRun", "│ \\rRun\n"),
            ("", ""),
        ];
        for (text, expected) in cases {
            let mut frame = TextFrame::of_width(12);
            let out = frame.put(text);
            assert_eq!(format!("{out}{}", frame.end()), expected, "{text:?}");
        }
    }

    #[test]
    fn pieces_are_framed_like_the_whole_text() {
        let mut frame = TextFrame::of_width(12);
        let pieces: String =
            ["on", "e\nt", "wo\n", "Run it? [y/N]"].iter().map(|piece| frame.put(piece)).collect();
        assert_eq!(pieces + frame.end(), "│ one\n│ two\n│ Run it? [y\n│ /N]\n");
    }
}
