//! A frame around text that somebody else wrote: on a terminal none of its lines begins where ours do, so that it
//! cannot pose as a question or a message of this program.

use super::{plain, table};

/// What stands before each line of foreign text.
const EDGE: &str = "│ ";
/// Columns that the edge takes.
const EDGE_WIDTH: usize = 2;
/// Tabs end at multiples of this.
const TAB: usize = 8;

/// A text from outside in a frame.
pub fn framed(text: &str) -> String {
    let mut frame = Frame::new();
    let mut out = frame.put(text);
    out.push_str(frame.end());
    out
}

/// A frame around text that comes in pieces.
#[derive(Debug)]
pub struct Frame {
    /// How many columns a line has inside the frame.
    width: usize,
    /// Where the next character stands; nothing before the edge is drawn.
    column: Option<usize>,
}

impl Frame {
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

    /// A piece of the text, made harmless. Lines are broken here: a terminal would begin the rest of a long line at
    /// its own edge.
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
                // As much as any character takes, so that a line is never too long.
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

    /// The end of the text: the end of its last line, where that is missing.
    pub fn end(&mut self) -> &'static str {
        if self.column.take().is_some() { "\n" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_foreign_text_begins_at_the_edge() {
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
            let mut frame = Frame::of_width(12);
            let out = frame.put(text);
            assert_eq!(format!("{out}{}", frame.end()), expected, "{text:?}");
        }
    }

    #[test]
    fn pieces_are_framed_as_the_whole() {
        let mut frame = Frame::of_width(12);
        let pieces: String =
            ["on", "e\nt", "wo\n", "Run it? [y/N]"].iter().map(|piece| frame.put(piece)).collect();
        assert_eq!(pieces + frame.end(), "│ one\n│ two\n│ Run it? [y\n│ /N]\n");
    }
}
