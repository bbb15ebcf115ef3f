//! The strict look at what comes in through our own doors: no duplicate keys, no deep nesting.
//!
//! A policy that reads one of two equal keys while a server reads the other can be walked round,
//! so a message with duplicate keys is refused before anybody reads it. This look only finds keys and
//! depth; that the text is JSON at all is for the reader that follows it to say.

use crate::codes::{INVALID_REQUEST, PARSE_ERROR, RpcError};
use std::borrow::Cow;
use std::collections::HashSet;
use toolbooth_core::scan::quote_or_backslash;

/// How deep values may nest in a message from a client.
pub const MAX_DEPTH: usize = 64;

/// How many keys are compared pairwise before a set pays off.
const FEW_KEYS: usize = 16;

/// Checks a whole message: UTF-8, no duplicate keys, at most `MAX_DEPTH` deep.
pub fn check(text: &[u8]) -> Result<(), RpcError> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Err(RpcError::new(PARSE_ERROR, "Parse error: the message is not valid UTF-8"));
    };
    let mut scan = Scan { open: Vec::with_capacity(8), keys: Vec::with_capacity(16), many: Vec::new() };
    scan.run(text).map_err(|why| RpcError::new(INVALID_REQUEST, format!("Invalid Request: {why}")))
}

/// An object or array that has not been closed yet.
#[derive(Clone, Copy)]
struct Open {
    is_object: bool,
    /// Where its keys start among all keys.
    keys_from: usize,
}

struct Scan<'a> {
    open: Vec<Open>,
    /// The keys of all open objects, outermost first.
    keys: Vec<Cow<'a, str>>,
    /// Sets of keys of objects that have many, with their depth.
    many: Vec<(usize, HashSet<Cow<'a, str>>)>,
}

impl<'a> Scan<'a> {
    fn run(&mut self, text: &'a str) -> Result<(), String> {
        let bytes = text.as_bytes();
        let mut at = 0;
        let mut key_next = false;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'{' | b'[' => {
                    if self.open.len() >= MAX_DEPTH {
                        return Err(format!("values nest deeper than {MAX_DEPTH}"));
                    }
                    self.open.push(Open { is_object: byte == b'{', keys_from: self.keys.len() });
                    key_next = byte == b'{';
                }
                b'}' | b']' => {
                    self.close();
                    key_next = false;
                }
                b',' => key_next = self.open.last().is_some_and(|open| open.is_object),
                b'"' => {
                    // A string that never ends is the reader's to refuse.
                    let Some(end) = string_end(bytes, at) else { return Ok(()) };
                    if key_next {
                        self.key(&text[at..end])?;
                        key_next = false;
                    }
                    at = end + 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        let depth = self.open.len();
        if let Some(open) = self.open.pop() {
            self.keys.truncate(open.keys_from);
        }
        if self.many.last().is_some_and(|(of, _)| *of == depth) {
            self.many.pop();
        }
    }

    fn key(&mut self, spelled: &'a str) -> Result<(), String> {
        let Some(key) = decoded(spelled) else {
            // Readers differ in what they make of half a character, and with it in which key this is.
            return Err("a key holds an escape that stands for no character".into());
        };
        let depth = self.open.len();
        let from = self.open.last().map_or(0, |open| open.keys_from);
        let twice = match self.many.last_mut() {
            Some((of, set)) if *of == depth => !set.insert(key.clone()),
            _ => self.keys[from..].contains(&key),
        };
        if twice {
            return Err(format!(
                "the key {:?} stands twice in one object",
                key.chars().take(64).collect::<String>()
            ));
        }
        if self.many.last().is_some_and(|(of, _)| *of == depth) {
            return Ok(());
        }
        self.keys.push(key);
        if self.keys.len() - from > FEW_KEYS {
            self.many.push((depth, self.keys.drain(from..).collect()));
        }
        Ok(())
    }
}

/// Where the string that starts at `from` ends: the place of its closing quote.
fn string_end(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let found = from + quote_or_backslash(bytes.get(from..)?)?;
        if bytes[found] == b'"' {
            return Some(found);
        }
        from = found + 2;
    }
}

/// A key as readers see it: two spellings of one key are the same key. Nothing, where it is no text.
fn decoded(spelled: &str) -> Option<Cow<'_, str>> {
    if !spelled.contains('\\') {
        return Some(Cow::Borrowed(spelled));
    }
    serde_json::from_str::<String>(&format!("\"{spelled}\"")).ok().map(Cow::Owned)
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
            (r#"{"\ud800a":1}"#.to_owned(), Some(INVALID_REQUEST)), // Half a character.
            (r#"{"x":[{"a\udc00\ud800":1}]}"#.to_owned(), Some(INVALID_REQUEST)),
            (r#"{"\ud83d\ude00":"\ud800"}"#.to_owned(), None), // In a value it is the server's to read.
            (format!("{{{many}\"k3\":2}}"), Some(INVALID_REQUEST)),
            (format!("{{{many}\"z\":2}}"), None),
            (format!("[{{{many}\"z\":2}},{{{many}\"z\":2,\"z\":3}}]"), Some(INVALID_REQUEST)),
        ];
        for (text, code) in cases {
            assert_eq!(check(text.as_bytes()).err().map(|e| e.code), code, "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(check(nested(MAX_DEPTH + 1).as_bytes()).map_err(|e| e.code), Err(INVALID_REQUEST));
        assert!(check(nested(100_000).as_bytes()).is_err());
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        assert_eq!(check(b"{\"a\":\"\xff\"}").map_err(|e| e.code), Err(PARSE_ERROR));
        assert!(check("\"\u{1f600}\"".as_bytes()).is_ok());
        assert!(check(br#"{"a":1e400}"#).is_ok(), "numbers are not read");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[{}\\[\\]\",:\\\\au0-9 ]{0,60}") {
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
