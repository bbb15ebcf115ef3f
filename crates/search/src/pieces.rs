//! Word pieces: the units for which the table has a vector. A word that is not in the vocabulary is composed of the
//! longest pieces that are.

use std::sync::OnceLock;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

static VOCABULARY: &str = include_str!("table/vocab.txt");

/// Maximum length of a word that has a meaning.
const MAX_WORD: usize = 100;
/// Maximum length of a piece.
const MAX_PIECE: usize = 24;
/// Slots of the hash table: a power of two, twice the number of pieces.
const SLOTS: usize = 1 << 16;
const FREE: u16 = u16::MAX;

/// The vocabulary, built on the first search: a quarter of a megabyte of indexes into text in the binary.
pub(crate) struct PieceVocabulary {
    lines: Box<[u32]>,
    slots: Box<[u16]>,
}

impl PieceVocabulary {
    /// The shared vocabulary.
    pub(crate) fn get() -> &'static Self {
        static READY: OnceLock<PieceVocabulary> = OnceLock::new();
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
            let mut slot = PieceHash::of(line.as_bytes()).slot();
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
        let row = usize::from(row);
        let start = self.lines.get(row).map_or(0, |at| *at as usize);
        let end = self.lines.get(row + 1).map_or(VOCABULARY.len(), |at| *at as usize - 1);
        VOCABULARY.as_bytes().get(start..end).unwrap_or_default()
    }

    fn find(&self, piece: &[u8], hash: PieceHash) -> Option<u16> {
        let mut slot = hash.slot();
        loop {
            match self.slots[slot] {
                FREE => return None,
                row if self.line(row) == piece => return Some(row),
                _ => slot = (slot + 1) % SLOTS,
            }
        }
    }

    /// Whether a lower-case word is a single piece.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.find(word.as_bytes(), PieceHash::of(word.as_bytes())).is_some()
    }

    /// Appends the table rows of a lower-case word; none if it cannot be composed of pieces.
    pub(crate) fn rows(&self, word: &str, out: &mut Vec<u16>) {
        let before = out.len();
        if word.len() > MAX_WORD {
            return;
        }
        let mut spelled = [b'#'; MAX_PIECE + 2];
        let mut hashes = [PieceHash::NOTHING; MAX_PIECE];
        let mut start = 0;
        while start < word.len() {
            let rest = &word.as_bytes()[start..];
            let mut length = rest.len().min(MAX_PIECE);
            spelled[2..2 + length].copy_from_slice(&rest[..length]);
            let from = if start == 0 { 2 } else { 0 };
            let mut hash = PieceHash::of(&spelled[from..2]);
            for (kept, byte) in hashes.iter_mut().zip(&rest[..length]) {
                hash = hash.with(*byte);
                *kept = hash;
            }
            let found = loop {
                if length == 0 {
                    break None;
                }
                if word.is_char_boundary(start + length)
                    && let Some(row) = self.find(&spelled[from..2 + length], hashes[length - 1])
                {
                    break Some(row);
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

/// FNV-1a, folded: the keys are short and never come from outside. The hash of a prefix is an intermediate value of the
/// hash of the whole.
#[derive(Clone, Copy)]
struct PieceHash(u64);

impl PieceHash {
    const NOTHING: Self = Self(0xcbf2_9ce4_8422_2325);

    fn of(piece: &[u8]) -> Self {
        piece.iter().fold(Self::NOTHING, |hash, byte| hash.with(*byte))
    }

    fn with(self, byte: u8) -> Self {
        Self((self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    fn slot(self) -> usize {
        usize::try_from((self.0 ^ (self.0 >> 32)) & (SLOTS as u64 - 1)).unwrap_or(0)
    }
}

/// Calls `visit` with each word and punctuation mark of a text, as the vocabulary spells them.
pub(crate) fn each_token(text: &str, visit: &mut impl FnMut(&str)) {
    let lower: String = if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        text.to_lowercase().nfd().filter(|c| !is_combining_mark(*c)).collect()
    };
    if lower.is_ascii() {
        let kinds = lower.bytes().map(|byte| ASCII[usize::from(byte & 0x7f)]).enumerate();
        each_run(&lower, kinds, visit);
    } else {
        each_run(&lower, lower.char_indices().map(|(at, c)| (at, CharKind::of(c))), visit);
    }
}

/// The class of a character for the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharKind {
    /// Part of a word.
    Letter,
    /// A token of its own.
    Alone,
    /// A separator between words.
    Space,
}

impl CharKind {
    fn of(c: char) -> Self {
        match c {
            _ if c.is_ascii() => ASCII[usize::from(c as u8)],
            _ if is_mark(c) || is_han(c) => Self::Alone,
            _ if c.is_whitespace() || c.is_control() => Self::Space,
            _ => Self::Letter,
        }
    }
}

/// The classes of the ASCII characters.
static ASCII: [CharKind; 128] = {
    let mut kinds = [CharKind::Letter; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        kinds[byte as usize] = match byte {
            _ if byte.is_ascii_punctuation() => CharKind::Alone,
            b' ' => CharKind::Space,
            _ if byte.is_ascii_control() => CharKind::Space,
            _ => CharKind::Letter,
        };
        byte += 1;
    }
    kinds
};

fn each_run(text: &str, kinds: impl Iterator<Item = (usize, CharKind)>, visit: &mut impl FnMut(&str)) {
    let mut start = None;
    for (at, kind) in kinds {
        if kind == CharKind::Letter {
            start.get_or_insert(at);
            continue;
        }
        if let Some(from) = start.take() {
            visit(&text[from..at]);
        }
        if kind == CharKind::Alone {
            visit(&text[at..text.ceil_char_boundary(at + 1)]);
        }
    }
    if let Some(from) = start {
        visit(&text[from..]);
    }
}

fn is_mark(c: char) -> bool {
    !c.is_alphanumeric() && !c.is_whitespace() && !c.is_control()
}

fn is_han(c: char) -> bool {
    matches!(u32::from(c), 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_composed_of_the_longest_pieces() {
        let vocabulary = PieceVocabulary::get();
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
    fn texts_are_split_at_spaces_and_punctuation() {
        let mut found = Vec::new();
        each_token("Get_File: Café 漢字!", &mut |token: &str| found.push(token.to_owned()));
        assert_eq!(found.join(" "), "get _ file : cafe 漢 字 !");
        found.clear();
        each_token("A\tb\u{b}c\u{1f}d\u{7f}e-f~", &mut |token: &str| found.push(token.to_owned()));
        assert_eq!(found.join(" "), "a b c d e - f ~");
    }
}
