//! Arguments that are plainly in order. Most tools want a few texts and numbers by name, and most calls give
//! just these: one pass over the text settles them, without a tree. Whatever is not plain is checked in full.

use crate::cursor::{Cursor, Kind};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The most arguments told apart; a bit stands for each.
const MAX_PROPERTIES: usize = 64;
/// What a schema may say of its object besides; none of it constrains a declared argument.
const OF_OBJECTS: [&str; 11] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "$schema",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
];
/// What a schema may say of a plain argument.
const OF_ARGUMENTS: [&str; 6] = ["type", "title", "description", "default", "examples", "deprecated"];

/// The arguments of a schema of which only the kind matters.
#[derive(Debug)]
pub(super) struct Plain {
    properties: Vec<(Box<str>, Wanted)>,
    /// The bits of those that must be given.
    required: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Text,
    Number,
    Integer,
    Boolean,
}

impl Plain {
    /// The plain part of a schema; `None` where nothing can be told without a full check.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let schema = schema.as_object()?;
        if !only(schema, &OF_OBJECTS) || schema.get("type").is_some_and(|kind| kind != "object") {
            return None;
        }
        let mut properties = Vec::new();
        for (name, property) in schema.get("properties")?.as_object()? {
            if let Some(wanted) = wanted(property) {
                properties.push((name.as_str().into(), wanted));
            }
        }
        if properties.len() > MAX_PROPERTIES {
            return None;
        }
        let mut plain = Self { properties, required: 0 };
        for name in schema.get("required").map_or(Some(&Vec::new()), Value::as_array)? {
            plain.required |= plain.find(name.as_str()?)?.0;
        }
        Some(plain)
    }

    fn find(&self, name: &str) -> Option<(u64, Wanted)> {
        let index = self.properties.iter().position(|(known, _)| **known == *name)?;
        Some((1 << index, self.properties[index].1))
    }

    /// Whether these arguments, an object with no key twice, are plainly in order.
    pub(super) fn takes(&self, arguments: &str) -> bool {
        let mut given = 0;
        let visit = |cursor: &mut Cursor<'_>, key: Cow<'_, str>| {
            let (bit, wanted) = self.find(&key).ok_or(())?;
            let fits = match (cursor.kind(), wanted) {
                (Kind::Text, Wanted::Text) | (Kind::Boolean, Wanted::Boolean) => true,
                (Kind::Number, Wanted::Number) => true,
                (Kind::Number, Wanted::Integer) => {
                    let digits =
                        cursor.rest().bytes().skip_while(|byte| *byte == b'-' || byte.is_ascii_digit());
                    !matches!({ digits }.next(), Some(b'.' | b'e' | b'E'))
                }
                _ => false,
            };
            cursor.skip();
            given |= bit;
            if fits { Ok(()) } else { Err(()) }
        };
        Cursor::new(arguments, 0).members(visit).is_ok() && given & self.required == self.required
    }
}

fn only(schema: &Map<String, Value>, known: &[&str]) -> bool {
    schema.keys().all(|key| known.contains(&key.as_str()))
}

fn wanted(property: &Value) -> Option<Wanted> {
    let property = property.as_object().filter(|property| only(property, &OF_ARGUMENTS))?;
    match property.get("type")?.as_str()? {
        "string" => Some(Wanted::Text),
        "number" => Some(Wanted::Number),
        "integer" => Some(Wanted::Integer),
        "boolean" => Some(Wanted::Boolean),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "required": ["s", "n"], "additionalProperties": false, "properties": {
            "s": {"type": "string", "description": "d"}, "n": {"type": "integer"}, "f": {"type": "number"},
            "b": {"type": "boolean"}, "e": {"enum": [1]}, "p": {"type": "string", "minLength": 3}}})
    }

    #[test]
    fn only_what_is_plainly_right_is_taken() {
        let plain = Plain::of(&schema()).expect("plain");
        for (arguments, taken) in [
            (r#"{"s":"x","n":-7}"#, true),
            (r#"{ "n" : 7 , "\u0073" : "a\"b" , "f":1e3,"b":false }"#, true),
            (r#"{"s":"x"}"#, false),
            (r#"{"s":"x","n":7.0}"#, false),
            (r#"{"s":"x","n":7e2}"#, false),
            (r#"{"s":null,"n":7}"#, false),
            (r#"{"s":"x","n":7,"e":1}"#, false),
            (r#"{"s":"x","n":7,"p":"long"}"#, false),
            (r#"{"s":"x","n":7,"z":1}"#, false),
            ("{}", false),
        ] {
            assert_eq!(plain.takes(arguments), taken, "{arguments}");
        }
        for odd in [
            json!({"properties": {}, "patternProperties": {}}),
            json!({"type": ["object", "null"], "properties": {}}),
            json!({"properties": {"a": {"type": "array"}}, "required": ["a"]}),
            json!({"properties": {}, "maxProperties": 1}),
            json!(true),
        ] {
            assert!(Plain::of(&odd).is_none(), "{odd}");
        }
    }

    proptest! {
        /// What is taken at a glance, a full check takes, too.
        #[test]
        fn nothing_wrong_is_taken(members in prop::collection::btree_map(
            prop::sample::select(vec!["s", "n", "f", "b", "e", "p", "z"]),
            prop::sample::select(vec!["\"x\"", "1", "-2.5", "1e2", "true", "null", "[]", "{}", "\"\""]), 0..7))
        {
            let text: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
            let text = format!("{{{}}}", text.join(", "));
            let tree: Value = serde_json::from_str(&text).expect("JSON");
            let full = jsonschema::validator_for(&schema()).expect("a schema");
            if Plain::of(&schema()).expect("plain").takes(&text) {
                prop_assert!(full.is_valid(&tree), "{}", text);
            }
        }
    }
}
