//! Percent-encoding of any text as one path segment or header word.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All characters except those that RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The text with all reserved characters encoded.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_unreserved_characters_stay() {
        assert_eq!(super::encoded("aZ0-_.~/ %\u{e9}"), "aZ0-_.~%2F%20%25%C3%A9");
    }
}
