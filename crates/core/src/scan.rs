//! Looking through the text of strings eight bytes at a time: most are short, and a search made for long texts takes
//! longer to begin than they take to look through.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// How many words are looked at one by one before a search for long texts takes over.
const SHORT: usize = 8;

/// Marks each byte that is zero, and perhaps bytes above such a one: the lowest mark is never one too many.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

/// Marks each byte that is this one, in the same way.
const fn equals(word: u64, byte: u8) -> u64 {
    zeros(word ^ (ONES * byte as u64))
}

/// Marks each byte below a space, in the same way.
const fn controls(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGH
}

fn lowest(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// Where the lowest mark stands in a text whose word starts here. The last word of a text may overlap the one before
/// it: what was looked at there has no marks.
fn place(marks: u64, from: usize) -> Option<usize> {
    (marks != 0).then(|| from + lowest(marks))
}

/// Where the first quote or backslash stands.
#[inline]
pub fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().take(SHORT).enumerate() {
        let word = u64::from_le_bytes(*word);
        let marks = equals(word, b'"') | equals(word, b'\\');
        if let Some(at) = place(marks, number * 8) {
            return Some(at);
        }
    }
    if words.len() > SHORT {
        return memchr::memchr2(b'"', b'\\', &bytes[SHORT * 8..]).map(|at| SHORT * 8 + at);
    }
    if rest.is_empty() {
        return None;
    }
    match bytes.last_chunk::<8>() {
        Some(last) => {
            let last = u64::from_le_bytes(*last);
            place(equals(last, b'"') | equals(last, b'\\'), bytes.len() - 8)
        }
        None => rest.iter().position(|byte| matches!(byte, b'"' | b'\\')),
    }
}

/// Where the first byte stands that is not itself in a string: a quote, a backslash or a control character.
#[inline]
pub fn special(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let marks = controls(word) | equals(word, b'"') | equals(word, b'\\');
        if let Some(at) = place(marks, number * 8) {
            return Some(at);
        }
    }
    if rest.is_empty() {
        return None;
    }
    match bytes.last_chunk::<8>() {
        Some(last) => {
            let last = u64::from_le_bytes(*last);
            place(controls(last) | equals(last, b'"') | equals(last, b'\\'), bytes.len() - 8)
        }
        None => rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_byte_is_told_at_every_place() {
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
        fn the_first_is_found(text in prop::collection::vec(prop::sample::select(b"ab\"\\\x01\x1f\x20\x21\x5b\x5d\x80\xff".to_vec()), 0..40), plain in 0..120_usize) {
            let text = [vec![b'a'; plain], text].concat();
            prop_assert_eq!(special(&text), text.iter().position(|b| *b < 0x20 || matches!(b, b'"' | b'\\')));
            prop_assert_eq!(quote_or_backslash(&text), text.iter().position(|b| matches!(b, b'"' | b'\\')));
        }
    }
}
