//! Foreign bytes made fit for a terminal and a log: printable, on one line, cut.

use std::fmt::Write;

/// Shows `bytes` on one line in at most `max_chars` characters, an ellipsis included when something was cut.
///
/// Control characters, direction changes and bytes that are not UTF-8 come out as escapes; tabs stay.
pub fn preview(bytes: &[u8], max_chars: usize) -> String {
    let mut shown = Shown { text: String::new(), left: max_chars, last: 0 };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if shown.push(Piece::Character(character)).is_none() {
                return shown.cut();
            }
        }
        for byte in chunk.invalid() {
            if shown.push(Piece::Byte(*byte)).is_none() {
                return shown.cut();
            }
        }
    }
    shown.text
}

enum Piece {
    Character(char),
    Byte(u8),
}

struct Shown {
    text: String,
    left: usize,
    /// Where the last piece begins, to make room for the ellipsis.
    last: usize,
}

impl Shown {
    fn push(&mut self, piece: Piece) -> Option<()> {
        let start = self.text.len();
        match piece {
            Piece::Character(character) if !needs_escape(character) => {
                self.left = self.left.checked_sub(1)?;
                self.text.push(character);
                self.last = start;
                return Some(());
            }
            Piece::Character(character) if character.is_ascii() => self.escape(u32::from(character)),
            Piece::Character(character) => {
                write!(self.text, "\\u{{{:x}}}", u32::from(character)).expect("a String takes every text");
            }
            Piece::Byte(byte) => self.escape(u32::from(byte)),
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
    fn long_text_is_cut_to_the_measure() {
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
