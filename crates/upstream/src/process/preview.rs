//! Makes foreign bytes safe for a terminal and a log: printable, on one line, truncated.

use std::fmt::Write;

/// Renders `bytes` on one line in at most `max_chars` characters, including an ellipsis if something was cut.
///
/// Control characters, direction changes and bytes that are not UTF-8 become escapes; tabs stay.
pub fn preview(bytes: &[u8], max_chars: usize) -> String {
    let mut shown = PreviewBuffer { text: String::new(), left: max_chars, last: 0 };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if shown.push(PreviewPart::Character(character)).is_none() {
                return shown.cut();
            }
        }
        for byte in chunk.invalid() {
            if shown.push(PreviewPart::Byte(*byte)).is_none() {
                return shown.cut();
            }
        }
    }
    shown.text
}

enum PreviewPart {
    Character(char),
    Byte(u8),
}

struct PreviewBuffer {
    text: String,
    left: usize,
    /// Start of the last part, to make room for the ellipsis.
    last: usize,
}

impl PreviewBuffer {
    fn push(&mut self, piece: PreviewPart) -> Option<()> {
        let start = self.text.len();
        match piece {
            PreviewPart::Character(character) if !needs_escape(character) => {
                self.left = self.left.checked_sub(1)?;
                self.text.push(character);
                self.last = start;
                return Some(());
            }
            PreviewPart::Character(character) if character.is_ascii() => self.escape(u32::from(character)),
            PreviewPart::Character(character) => {
                write!(self.text, "\\u{{{:x}}}", u32::from(character)).expect("a String takes every text");
            }
            PreviewPart::Byte(byte) => self.escape(u32::from(byte)),
        }
        let width = self.text.len() - start;
        match self.left.checked_sub(width) {
            Some(left) => {
                self.left = left;
                self.last = start;
                Some(())
            }
            None => {
                self.text.truncate(start);
                None
            }
        }
    }

    fn escape(&mut self, code: u32) {
        write!(self.text, "\\x{code:02x}").expect("a String takes every text");
    }

    fn cut(mut self) -> String {
        if self.left == 0 {
            self.text.truncate(self.last);
        }
        self.text.push('…');
        self.text
    }
}

fn needs_escape(character: char) -> bool {
    let turns =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}');
    turns || breaks || (character.is_control() && character != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_reach_the_terminal() {
        let cases: [(&[u8], &str); 6] = [
            (b"plain\ttext", "plain\ttext"),
            (b"\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
            (b"a\r\nb\x7f", r"a\x0d\x0ab\x7f"),
            (b"caf\xe9 \xff", r"caf\xe9 \xff"),
            ("ä\u{202e}b\u{9b}".as_bytes(), r"ä\u{202e}b\u{9b}"),
            (b"", ""),
        ];
        for (bytes, expected) in cases {
            assert_eq!(preview(bytes, 100), expected, "{bytes:?}");
        }
    }

    #[test]
    fn long_text_is_cut_to_the_limit() {
        let cases: [(&[u8], usize, &str); 5] = [
            (b"abcdef", 6, "abcdef"),
            (b"abcdefg", 6, "abcde…"),
            (b"abc\x00\x00", 8, "abc\\x00…"),
            (b"abcde\x00", 6, "abcde…"),
            ("ääää".as_bytes(), 3, "ää…"),
        ];
        for (bytes, max, expected) in cases {
            assert_eq!(preview(bytes, max), expected, "{bytes:?}");
        }
    }
}
