//! The strict check of messages from clients: valid JSON, no duplicate keys, limited nesting.
//!
//! `core::json` implements the rules; this module maps violations to JSON-RPC errors.

use crate::codes::{INVALID_REQUEST, PARSE_ERROR, RpcError};
use toolbooth_core::json::{StrictError, TokenError, check_strictly};

/// The maximum nesting depth of a message from a client.
pub const MAX_DEPTH: usize = 64;

/// Checks a whole message: UTF-8, JSON, no duplicate keys, at most `MAX_DEPTH` deep.
pub fn check(text: &[u8]) -> Result<(), RpcError> {
    check_strictly(text, MAX_DEPTH).map_err(|error| match error {
        StrictError::Token(TokenError::NotUtf8) => {
            RpcError::new(PARSE_ERROR, "Parse error: the message is not valid UTF-8")
        }
        StrictError::Token(TokenError::Syntax { .. }) => {
            RpcError::new(PARSE_ERROR, format!("Parse error: {error}"))
        }
        other => RpcError::new(INVALID_REQUEST, format!("Invalid Request: {other}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn duplicate_keys_are_refused_at_any_depth() {
        let many: String = (0..40).map(|n| format!("\"k{n}\":{{\"k{n}\":1}},")).collect();
        let cases = [
            (r#"{"a":1,"b":{"a":1}}"#.to_owned(), None),
            (r#"{"a":"a","b":["b","b",{"c":1},{"c":1}]}"#.to_owned(), None),
            (r#"{"a":1,"a":2}"#.to_owned(), Some(INVALID_REQUEST)),
            (r#"{"x":[{"a":1,"\u0061":2}]}"#.to_owned(), Some(INVALID_REQUEST)),
            (r#"{"a\"":1,"a\"":2}"#.to_owned(), Some(INVALID_REQUEST)),
            (r#"{"a":{"b":1},"c":[1],"a":2}"#.to_owned(), Some(INVALID_REQUEST)),
            (r#"{"\ud800a":1}"#.to_owned(), Some(INVALID_REQUEST)), // A lone surrogate.
            (r#"{"x":[{"a\udc00\ud800":1}]}"#.to_owned(), Some(INVALID_REQUEST)),
            (r#"{"\ud83d\ude00":"\ud800"}"#.to_owned(), None), // In a value, a lone surrogate is left to the server.
            (format!("{{{many}\"k3\":2}}"), Some(INVALID_REQUEST)),
            (format!("{{{many}\"z\":2}}"), None),
            (format!("[{{{many}\"z\":2}},{{{many}\"z\":2,\"z\":3}}]"), Some(INVALID_REQUEST)),
        ];
        for (text, code) in cases {
            assert_eq!(check(text.as_bytes()).err().map(|e| e.code), code, "{text}");
        }
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(check(nested(MAX_DEPTH + 1).as_bytes()).map_err(|e| e.code), Err(INVALID_REQUEST));
        assert!(check(nested(100_000).as_bytes()).is_err());
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        assert_eq!(check(b"{\"a\":\"\xff\"}").map_err(|e| e.code), Err(PARSE_ERROR));
        assert!(check("\"\u{1f600}\"".as_bytes()).is_ok());
        assert!(check(br#"{"a":1e400}"#).is_ok(), "numbers are not parsed");
    }

    proptest! {
        #[test]
        fn it_never_panics(text in "[{}\\[\\]\",:\\\\au0-9 ]{0,60}") {
            let _ = check(text.as_bytes());
        }

        #[test]
        fn values_with_distinct_keys_pass(keys in prop::collection::btree_set("[a-z\"\\\\é]{0,6}", 0..40)) {
            let object: serde_json::Map<String, serde_json::Value> =
                keys.iter().map(|key| (key.clone(), serde_json::json!({ "n": [1, { "n": key }] }))).collect();
            let text = serde_json::to_string(&object).expect("JSON");
            prop_assert!(check(text.as_bytes()).is_ok(), "{}", text);
        }
    }
}
