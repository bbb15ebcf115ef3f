//! Strict base64 of files that tools return, decoded in pieces.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

/// Number of characters decoded at a time; a multiple of four.
const PIECE: usize = 64 << 10;

/// The text is not strict base64: the standard alphabet, padded, without other characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its content is not strict base64")]
pub struct NotBase64;

/// The number of bytes that a base64 text decodes to, by its length.
pub fn decoded_size(text: &[u8]) -> u64 {
    let padding = text.iter().rev().take(2).filter(|byte| **byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding) as u64
}

/// The decoded bytes, piece by piece. The first invalid piece ends the iterator.
pub fn pieces(text: Bytes) -> impl Iterator<Item = Result<Bytes, NotBase64>> + Send {
    let mut rest = text;
    let mut is_bad = false;
    std::iter::from_fn(move || {
        if is_bad || rest.is_empty() {
            return None;
        }
        let piece = rest.split_to(PIECE.min(rest.len()));
        // Padding ends a text: nothing may follow it.
        let ends_early = !rest.is_empty() && piece.ends_with(b"=");
        let decoded = STANDARD.decode(&piece).map(Bytes::from).map_err(|_| NotBase64);
        let decoded = if ends_early { Err(NotBase64) } else { decoded };
        is_bad = decoded.is_err();
        Some(decoded)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(text: &str) -> Result<Vec<u8>, NotBase64> {
        let pieces: Result<Vec<Bytes>, _> = pieces(Bytes::copy_from_slice(text.as_bytes())).collect();
        pieces.map(|pieces| pieces.concat())
    }

    #[test]
    fn only_strict_base64_is_accepted() {
        let long = STANDARD.encode(vec![7_u8; 100_000]);
        let padded_inside = format!("{}{}", STANDARD.encode([1_u8; 49_151]), STANDARD.encode([2_u8; 9]));
        let cases = [
            ("", true),
            ("aGk=", true),
            (&long, true),
            ("aGk", false),
            ("aGl=", false), // bits left over
            ("aG k=", false),
            ("aGk=\n", false),
            ("a-_=", false),
            ("data:text/plain;base64,aGk=", false),
            (&padded_inside, false),
        ];
        for (text, expected) in cases {
            assert_eq!(whole(text).is_ok(), expected, "{}", &text[..text.len().min(40)]);
        }
    }

    proptest! {
        #[test]
        fn encoded_bytes_are_decoded(bytes in prop::collection::vec(any::<u8>(), 0..200_000)) {
            let text = STANDARD.encode(&bytes);
            prop_assert_eq!(decoded_size(text.as_bytes()), bytes.len() as u64);
            prop_assert_eq!(whole(&text), Ok(bytes));
        }
    }
}
