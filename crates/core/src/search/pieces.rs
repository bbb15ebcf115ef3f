//! Word pieces: the units for which the table has a vector. A word that the vocabulary lacks is made of the longest
//! pieces that it has.

use std::sync::OnceLock;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

static VOCABULARY: &str = include_str!("table/vocab.txt");

/// Longer words have no meaning that is known.
const MAX_WORD: usize = 100;
/// No piece is longer than this.
const MAX_PIECE: usize = 24;
/// Slots of the look-up: a power of two, twice the number of pieces.
const SLOTS: usize = 1 << 16;
const FREE: u16 = u16::MAX;

/// The vocabulary, made ready when somebody first searches: a quarter of a megabyte over text that is in the binary.
pub(super) struct Vocabulary {
    lines: Box<[u32]>,
    slots: Box<[u16]>,
}

impl Vocabulary {
    /// The one vocabulary.
    pub(super) fn get() -> &'static Self {
        static READY: OnceLock<Vocabulary> = OnceLock::new();
        READY.get_or_init(Self::read)
    }

    fn read() -> Self {
        let mut lines = Vec::with_capacity(SLOTS / 2);
        let mut slots = vec![FREE; SLOTS].into_boxed_slice();
        let mut at = 0;
        for line in VOCABULARY.split('\n').take(usize::from(FREE)) {
            let row = lines.len();
            lines.push(u32::try_from(at).unwrap_or(u32::MAX));
            at += line.len() + 1;
            let mut slot = hash(line.as_bytes());
            while slots[slot] != FREE {
                slot = (slot + 1) % SLOTS;
            }
            if !line.is_empty() {
                slots[slot] = u16::try_from(row).unwrap_or(FREE);
            }
        }
        Self { lines: lines.into(), slots }
    }

    fn line(&self, row: u16) -> &'static [u8] {
        let start = self.lines.get(usize::from(row)).map_or(0, |at| *at as usize);
        let rest = VOCABULARY.as_bytes().get(start..).unwrap_or_default();
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        &rest[..end]
    }

    fn find(&self, piece: &[u8]) -> Option<u16> {
        let mut slot = hash(piece);
        loop {
            match self.slots[slot] {
                FREE => return None,
                row if self.line(row) == piece => return Some(row),
                _ => slot = (slot + 1) % SLOTS,
            }
        }
    }

    /// Whether a lower-case word is one piece.
    pub(super) fn has(&self, word: &str) -> bool {
        self.find(word.as_bytes()).is_some()
    }

    /// The rows of a lower-case word. A word that cannot be put together has none.
    pub(super) fn rows(&self, word: &str, out: &mut Vec<u16>) {
        let before = out.len();
        if word.len() > MAX_WORD {
            return;
        }
        let mut spelled = [b'#'; MAX_PIECE + 2];
        let mut start = 0;
        while start < word.len() {
            let rest = &word.as_bytes()[start..];
            let mut length = rest.len().min(MAX_PIECE);
            let found = loop {
                if length == 0 {
                    break None;
                }
                if word.is_char_boundary(start + length) {
                    spelled[2..2 + length].copy_from_slice(&rest[..length]);
                    let from = if start == 0 { 2 } else { 0 };
                    if let Some(row) = self.find(&spelled[from..2 + length]) {
                        break Some(row);
                    }
                }
                length -= 1;
            };
            match found {
                Some(row) => out.push(row),
                None => return out.truncate(before),
            }
            start += length;
        }
    }
}

fn hash(piece: &[u8]) -> usize {
    // FNV-1a, folded: short keys, and never under anybody else's control.
    let hash = piece.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    usize::try_from((hash ^ (hash >> 32)) & (SLOTS as u64 - 1)).unwrap_or(0)
}

/// Calls `visit` with each word and mark of a text, as the vocabulary spells them.
pub(super) fn each_token(text: &str, visit: &mut impl FnMut(&str)) {
    let lower: String = if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        text.to_lowercase().nfd().filter(|c| !is_combining_mark(*c)).collect()
    };
    let mut start = None;
    for (at, c) in lower.char_indices() {
        let alone = is_mark(c) || is_han(c);
        if (alone || c.is_whitespace() || c.is_control())
            && let Some(from) = start.take()
        {
            visit(&lower[from..at]);
        }
        if alone {
            visit(&lower[at..at + c.len_utf8()]);
        } else if start.is_none() && !c.is_whitespace() && !c.is_control() {
            start = Some(at);
        }
    }
    if let Some(from) = start {
        visit(&lower[from..]);
    }
}

fn is_mark(c: char) -> bool {
    c.is_ascii_punctuation()
        || (!c.is_ascii() && !c.is_alphanumeric() && !c.is_whitespace() && !c.is_control())
}

fn is_han(c: char) -> bool {
    matches!(u32::from(c), 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_made_of_the_longest_pieces() {
        let vocabulary = Vocabulary::get();
        let cases = [
            ("delete", "del ##ete"),
            ("message", "message"),
            ("tokenizer", "token ##izer"),
            ("\u{1f600}", ""),
        ];
        for (word, expected) in cases {
            let mut rows = Vec::new();
            vocabulary.rows(word, &mut rows);
            let pieces: Vec<_> =
                rows.iter().map(|row| String::from_utf8_lossy(vocabulary.line(*row))).collect();
            assert_eq!(pieces.join(" "), expected, "{word}");
        }
    }

    #[test]
    fn texts_are_split_at_spaces_and_marks() {
        let mut found = Vec::new();
        each_token("Get_File: Café 漢字!", &mut |token: &str| found.push(token.to_owned()));
        assert_eq!(found.join(" "), "get _ file : cafe 漢 字 !");
    }
}
