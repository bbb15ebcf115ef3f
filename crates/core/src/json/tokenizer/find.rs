//! Searches strings eight bytes at a time: most are short, and a search made for long texts takes longer to start than
//! to finish on them.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Number of bytes searched here before a search for long texts takes over.
const SHORT: usize = 64;

/// Marks each zero byte, and perhaps bytes above one; the lowest mark is always correct.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

/// Marks each byte that equals `byte`, in the same way.
const fn equals(word: u64, byte: u8) -> u64 {
    zeros(word ^ (ONES * byte as u64))
}

/// Marks each byte below a space, in the same way.
const fn controls(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGH
}

/// Marks each byte that cannot appear unescaped in a string, in the same way.
const fn specials(word: u64) -> u64 {
    controls(word) | equals(word, b'"') | equals(word, b'\\')
}

/// The position of the first marked byte. `marks` must not mark a space.
#[inline]
fn first(bytes: &[u8], marks: impl Fn(u64) -> u64) -> Option<usize> {
    let found = |word: [u8; 8], from: usize| {
        let marks = marks(u64::from_le_bytes(word));
        (marks != 0).then(|| from + marks.trailing_zeros() as usize / 8)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        if let Some(at) = found(*word, number * 8) {
            return Some(at);
        }
    }
    if rest.is_empty() {
        return None;
    }
    match bytes.last_chunk::<8>() {
        // It overlaps the previous word, which has no marks.
        Some(last) => found(*last, bytes.len() - 8),
        None => {
            let mut padded = [b' '; 8];
            padded[..rest.len()].copy_from_slice(rest);
            found(padded, 0)
        }
    }
}

/// The position of the first quote or backslash.
#[inline]
pub(super) fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    let (short, long) = bytes.split_at(bytes.len().min(SHORT));
    first(short, |word| equals(word, b'"') | equals(word, b'\\'))
        .or_else(|| memchr::memchr2(b'"', b'\\', long).map(|at| SHORT + at))
}

/// The position of the first byte that cannot appear unescaped in a string: a quote, backslash or control character.
#[inline]
pub(in crate::json) fn special(bytes: &[u8]) -> Option<usize> {
    let (short, long) = bytes.split_at(bytes.len().min(SHORT));
    first(short, specials).or_else(|| special_in_long(long).map(|at| SHORT + at))
}

/// The same for long texts: checks whole blocks as long as they have no such byte.
fn special_in_long(bytes: &[u8]) -> Option<usize> {
    let blocks = bytes.chunks(BLOCK).take_while(|block| !has_special(block)).count();
    let from = (blocks * BLOCK).min(bytes.len());
    first(&bytes[from..], specials).map(|at| from + at)
}

/// Number of bytes of a long text that are checked in one step.
const BLOCK: usize = 128;

/// Whether a block has such a byte. Without branches, so that the compiler vectorises it.
fn has_special(block: &[u8]) -> bool {
    let seen = block.iter().fold(0_u8, |seen, byte| {
        seen | u8::from(*byte < b' ') | u8::from(*byte == b'"') | u8::from(*byte == b'\\')
    });
    seen != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_byte_is_recognised_at_every_position() {
        for at in 0..20 {
            for byte in 0..=u8::MAX {
                let mut text = *b"abcdefghijklmnopqrst";
                text[at] = byte;
                let expected = (byte < 0x20 || byte == b'"' || byte == b'\\').then_some(at);
                assert_eq!(special(&text), expected, "{byte} at {at}");
                let expected = matches!(byte, b'"' | b'\\').then_some(at);
                assert_eq!(quote_or_backslash(&text), expected, "{byte} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_is_found(text in prop::collection::vec(prop::sample::select(b"ab\"\\\x01\x1f\x20\x21\x5b\x5d\x80\xff".to_vec()), 0..40), plain in 0..420_usize) {
            let text = [vec![b'a'; plain], text].concat();
            prop_assert_eq!(special(&text), text.iter().position(|b| *b < 0x20 || matches!(b, b'"' | b'\\')));
            prop_assert_eq!(quote_or_backslash(&text), text.iter().position(|b| matches!(b, b'"' | b'\\')));
        }
    }
}
