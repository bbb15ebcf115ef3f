//! Decodes the escapes of strings. Every reader of decoded keys and texts uses this module, so that they agree.

use std::borrow::Cow;

/// A string has an escape that is not a character: half of a surrogate pair, or an escape that JSON does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an escape is not a valid character")]
pub struct InvalidCharacter {
    /// The position of its backslash in the text that was decoded.
    pub at: usize,
}

/// Decodes the text between the quotes of a string.
pub fn decode(inside: &str) -> Result<Cow<'_, str>, InvalidCharacter> {
    decode_with(inside, |at| Err(InvalidCharacter { at }))
}

/// Decodes the text between the quotes of a string; an escape that is not a character becomes the replacement character.
pub fn decode_lossily(inside: &str) -> Cow<'_, str> {
    decode_with(inside, |_| Ok(char::REPLACEMENT_CHARACTER)).unwrap_or(Cow::Borrowed(inside))
}

fn decode_with(
    inside: &str,
    invalid: impl Fn(usize) -> Result<char, InvalidCharacter>,
) -> Result<Cow<'_, str>, InvalidCharacter> {
    let Some(mut at) = memchr::memchr(b'\\', inside.as_bytes()) else { return Ok(Cow::Borrowed(inside)) };
    let mut out = String::with_capacity(inside.len());
    out.push_str(&inside[..at]);
    loop {
        let (character, length) = match escape(&inside.as_bytes()[at..]) {
            DecodedEscape::Character(character, length) => (character, length),
            DecodedEscape::Invalid(length) => (invalid(at)?, length),
        };
        out.push(character);
        // An invalid escape may end inside a character.
        let from = inside.ceil_char_boundary(at + length);
        let rest = &inside[from..];
        match memchr::memchr(b'\\', rest.as_bytes()) {
            Some(plain) => {
                out.push_str(&rest[..plain]);
                at = from + plain;
            }
            None => {
                out.push_str(rest);
                return Ok(Cow::Owned(out));
            }
        }
    }
}

/// An escape, with its length in bytes.
enum DecodedEscape {
    Character(char, usize),
    Invalid(usize),
}

/// Reads the escape at the start of `text`, which begins with a backslash.
fn escape(text: &[u8]) -> DecodedEscape {
    let character = match text.get(1) {
        Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return hex_escape(text),
        _ => return DecodedEscape::Invalid(2),
    };
    DecodedEscape::Character(character, 2)
}

fn hex_escape(text: &[u8]) -> DecodedEscape {
    let Some(first) = code_unit(text) else { return DecodedEscape::Invalid(6) };
    if let 0xd800..=0xdbff = first
        && let Some(second @ 0xdc00..=0xdfff) = text.get(6..).and_then(code_unit)
    {
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return char::from_u32(code)
            .map_or(DecodedEscape::Invalid(6), |character| DecodedEscape::Character(character, 12));
    }
    // Half of a surrogate pair is not a character.
    char::from_u32(first)
        .map_or(DecodedEscape::Invalid(6), |character| DecodedEscape::Character(character, 6))
}

/// The UTF-16 code unit of a `\u` escape at the start of `text`.
fn code_unit(text: &[u8]) -> Option<u32> {
    let digits = text.get(..6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |code, digit| Some(code << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn halves_of_surrogate_pairs_are_not_characters() {
        let cases = [
            (r"\u0061\n\ud83d\ude00", Ok("a\n\u{1f600}"), "a\n\u{1f600}"),
            (r"\ud800\u0075ser\\", Err(0), "\u{fffd}user\\"),
            (r"a\udc00\ud800b\ud800", Err(1), "a\u{fffd}\u{fffd}b\u{fffd}"),
            (r"é\ud83d\ud83d\ude00", Err(2), "é\u{fffd}\u{1f600}"),
            ("plain é", Ok("plain é"), "plain é"),
        ];
        for (text, exact, lossy) in cases {
            let found = decode(text);
            assert_eq!(found.as_deref().map_err(|error| error.at), exact, "{text}");
            assert_eq!(decode_lossily(text), lossy, "{text}");
        }
    }

    #[test]
    fn text_that_is_not_json_is_decoded_without_a_panic() {
        for (text, lossy) in
            [(r"\", "\u{fffd}"), (r"a\é!", "a\u{fffd}!"), (r"\u12", "\u{fffd}"), (r"\u00é9x", "\u{fffd}9x")]
        {
            assert!(decode(text).is_err(), "{text}");
            assert_eq!(decode_lossily(text), lossy, "{text}");
        }
    }

    proptest! {
        #[test]
        fn strings_are_decoded_like_in_serde_json(pieces in prop::collection::vec(prop::sample::select(
            vec![r"\n", r"\t\r\b\f", r"\/", r#"\""#, r"\\", r"\u00e9", r"\uD83D", r"\ude00", r"\ud83d\uDE00", r"\u0000", "é", "😀", "ab", "u0041"]), 0..12))
        {
            let inside = pieces.concat();
            let expected = serde_json::from_str::<String>(&format!("\"{inside}\""));
            prop_assert_eq!(decode(&inside).ok().map(Cow::into_owned), expected.ok(), "{}", inside);
        }
    }
}
