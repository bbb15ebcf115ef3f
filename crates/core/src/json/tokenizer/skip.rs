//! Skips values of text that is known to be JSON, without checking them again.
//!
//! On valid JSON it finds the same ends as the tokenizer; a property test compares them. On other text it ends early and
//! never panics.

use super::find::quote_or_backslash;

/// Whether a byte is white space of JSON.
#[inline]
pub(in crate::json) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// The end of the value that starts at `from`.
pub(in crate::json) fn value_end(bytes: &[u8], from: usize) -> usize {
    match bytes.get(from) {
        Some(b'"') => string_end(bytes, from + 1),
        Some(b'{' | b'[') => nested_end(bytes, from + 1),
        _ => {
            let ends = |byte: &u8| is_space(*byte) || matches!(byte, b',' | b':' | b'}' | b']' | b'"');
            let rest = bytes.get(from..).unwrap_or_default();
            from + rest.iter().position(ends).unwrap_or(rest.len())
        }
    }
}

/// The position of the closing quote of a string without escapes, whose first character is at `from`; `None` if it has
/// escapes.
#[inline]
pub(in crate::json) fn plain_string_end(bytes: &[u8], from: usize) -> Option<usize> {
    let end = from + quote_or_backslash(bytes.get(from..)?)?;
    (bytes[end] == b'"').then_some(end)
}

/// The end of the object or array whose first byte after the opening bracket is at `from`.
fn nested_end(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 1_usize);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        // The braces differ in one bit from the brackets, and from nothing else.
        match (*byte, *byte | 0x20) {
            (b'"', _) => at = string_end(bytes, at),
            (_, b'{') => depth += 1,
            (_, b'}') => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
    }
    at
}

/// The end, after the closing quote, of a string whose first character is at `from`.
fn string_end(bytes: &[u8], mut from: usize) -> usize {
    while let Some(found) = bytes.get(from..).and_then(quote_or_backslash) {
        from += found + 1;
        if bytes[from - 1] == b'"' {
            return from;
        }
        // The character after a backslash is part of the string.
        from += 1;
    }
    bytes.len()
}
