//! Skips the inside of long strings 64 bytes at a time.
//!
//! Texts of results have a line end or a quote every few words, and checking each escape separately costs a
//! mispredicted branch. A block is checked as a whole instead, without branches.

/// The length of a block, and the minimum length of a string that is read in blocks.
pub(super) const BLOCK: usize = 64;

/// The number of bytes of plain characters and simple escapes at the start of `text`, which begins inside a string and
/// not after a backslash. The rest may still be plain: it has to be read one character at a time.
pub(super) fn skip_blocks(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(window) = text[at..].first_chunk::<{ BLOCK + 1 }>()
        && is_ordinary(window)
    {
        // A backslash at the end belongs to the block with the character that it escapes.
        at += BLOCK - usize::from(window[BLOCK - 1] == b'\\');
    }
    at
}

/// Whether a block, given with the byte after it, has no control character, a backslash before each quote, and a simple
/// escape after each backslash. `\\` and `\u` do not count as simple, so no backslash is itself escaped.
fn is_ordinary(window: &[u8; BLOCK + 1]) -> bool {
    let mut wrong = u8::from(window[0] == b'"');
    for (this, next) in window[..BLOCK].iter().zip(&window[1..]) {
        let is_backslash = *this == b'\\';
        let is_simple = (*next == b'"')
            | (*next == b'/')
            | (*next == b'b')
            | (*next == b'f')
            | (*next == b'n')
            | (*next == b'r')
            | (*next == b't');
        wrong |= u8::from(*this < b' ')
            | u8::from(is_backslash & !is_simple)
            | u8::from((*next == b'"') & !is_backslash);
    }
    wrong == 0
}

#[cfg(test)]
mod tests {
    use super::super::{ANY_DEPTH, Token, TokenKind, Tokenizer};
    use proptest::prelude::*;
    use std::ops::ControlFlow;

    /// The inside of a string of a few hundred bytes: mostly ordinary, with a few exceptions.
    fn inside() -> impl Strategy<Value = String> {
        let ordinary = ["a line of words", "x", " ", r"\n", r#"\""#, r"\/", "é😀", r"\t\r\b\f"];
        let other = [r"\\", r"\u00e9", r"\", "\"", "\n", r"\x", r"\u12", "\u{1f}"];
        let piece = prop_oneof![
            30 => prop::sample::select(ordinary.to_vec()),
            1 => prop::sample::select(other.to_vec()),
        ];
        prop::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

        #[test]
        fn long_strings_are_accepted_like_in_serde_json(inside in inside(), size in 1..300_usize) {
            let text = format!("\"{inside}\"");
            let mut tokenizer = Tokenizer::new(ANY_DEPTH);
            let mut found = Vec::new();
            let mut each = |token: Token<'_>| {
                found.push((token.kind, token.range, token.escaped));
                ControlFlow::Continue(())
            };
            let mut read = || {
                for piece in text.as_bytes().chunks(size) {
                    tokenizer.push(piece, &mut each)?;
                }
                tokenizer.finish(&mut each)
            };
            let is_read = read().is_ok();
            prop_assert_eq!(is_read, serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{}", text);
            if is_read {
                prop_assert_eq!(found, vec![(TokenKind::Text, 0..text.len(), text.contains('\\'))]);
            }
        }
    }
}
