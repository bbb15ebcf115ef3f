//! The strict look at what comes in through our own doors: no duplicate keys, no deep nesting.
//!
//! A policy that reads one of two equal keys while a server reads the other can be walked round,
//! so a message with duplicate keys is refused before anybody reads it.

use crate::codes::{INVALID_REQUEST, PARSE_ERROR, RpcError};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

/// How deep values may nest in a message from a client.
pub const MAX_DEPTH: usize = 64;

/// How many keys are compared pairwise before a set pays off.
const FEW_KEYS: usize = 16;

/// Checks a whole message: one JSON value, UTF-8, no duplicate keys, at most `MAX_DEPTH` deep.
pub fn check(text: &[u8]) -> Result<(), RpcError> {
    if std::str::from_utf8(text).is_err() {
        return Err(RpcError::new(PARSE_ERROR, "Parse error: the message is not valid UTF-8"));
    }
    let broken_rule = Cell::new(false);
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let seed = Value { depth: 0, broken_rule: &broken_rule };
    seed.deserialize(&mut deserializer).and_then(|()| deserializer.end()).map_err(|error| {
        if broken_rule.get() {
            RpcError::new(INVALID_REQUEST, format!("Invalid Request: {error}"))
        } else {
            RpcError::new(PARSE_ERROR, format!("Parse error: {error}"))
        }
    })
}

#[derive(Clone, Copy)]
struct Value<'a> {
    depth: usize,
    broken_rule: &'a Cell<bool>,
}

impl Value<'_> {
    fn inside<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            self.broken_rule.set(true);
            return Err(E::custom(format_args!("values nest deeper than {MAX_DEPTH}")));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        while seq.next_element_seed(inside)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        let mut keys = Keys::default();
        while let Some(Key(key)) = map.next_key()? {
            if !keys.insert(key.clone()) {
                self.broken_rule.set(true);
                return Err(A::Error::custom(format_args!("the key {key:?} stands twice in one object")));
            }
            map.next_value_seed(inside)?;
        }
        Ok(())
    }
}

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Default)]
struct Keys<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    fn insert(&mut self, key: Cow<'a, str>) -> bool {
        if !self.many.is_empty() {
            return self.many.insert(key);
        }
        if self.few.contains(&key) {
            return false;
        }
        self.few.push(key);
        if self.few.len() > FEW_KEYS {
            self.many.extend(self.few.drain(..));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_refused_at_any_depth() {
        let many: String = (0..40).map(|n| format!("\"k{n}\":1,")).collect();
        let cases = [
            (r#"{"a":1,"b":{"a":1}}"#.to_owned(), None),
            (r#"{"a":1,"a":2}"#.to_owned(), Some(INVALID_REQUEST)),
            (r#"{"x":[{"a":1,"\u0061":2}]}"#.to_owned(), Some(INVALID_REQUEST)),
            (format!("{{{many}\"k3\":2}}"), Some(INVALID_REQUEST)),
            (format!("{{{many}\"z\":2}}"), None),
            ("{\"a\":1} x".to_owned(), Some(PARSE_ERROR)),
            ("{\"a\":".to_owned(), Some(PARSE_ERROR)),
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
    }
}
