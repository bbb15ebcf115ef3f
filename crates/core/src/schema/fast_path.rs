//! Fast path of argument checks. Most tools take a few strings and numbers by name, and most calls give just these: one
//! pass over the text accepts them without parsing a tree. All other arguments get a full check.

use crate::json::{JsonCursor, JsonKind};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Maximum number of arguments; each has one bit.
const MAX_PROPERTIES: usize = 64;
/// Keywords of an object schema that do not constrain a declared argument further.
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
/// Keywords of a plain argument.
const OF_ARGUMENTS: [&str; 6] = ["type", "title", "description", "default", "examples", "deprecated"];

/// The arguments of a schema that are constrained only by type.
#[derive(Debug)]
pub(super) struct FastPath {
    properties: Vec<(Box<str>, PlainType)>,
    /// The bits of the required arguments.
    required: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlainType {
    Text,
    Number,
    Integer,
    Boolean,
}

impl FastPath {
    /// The fast path of a schema; `None` if every call needs a full check.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let schema = schema.as_object()?;
        if !only(schema, &OF_OBJECTS) || schema.get("type").is_some_and(|kind| kind != "object") {
            return None;
        }
        let mut properties = Vec::new();
        for (name, property) in schema.get("properties")?.as_object()? {
            if let Some(plain_type) = plain_type(property) {
                properties.push((name.as_str().into(), plain_type));
            }
        }
        if properties.len() > MAX_PROPERTIES {
            return None;
        }
        let mut fast_path = Self { properties, required: 0 };
        for name in schema.get("required").map_or(Some(&Vec::new()), Value::as_array)? {
            fast_path.required |= fast_path.find(name.as_str()?)?.0;
        }
        Some(fast_path)
    }

    fn find(&self, name: &str) -> Option<(u64, PlainType)> {
        let index = self.properties.iter().position(|(known, _)| **known == *name)?;
        Some((1 << index, self.properties[index].1))
    }

    /// Whether these arguments, an object without duplicate keys, are certainly valid.
    pub(super) fn takes(&self, arguments: &str) -> bool {
        let mut given = 0;
        let visit = |cursor: &mut JsonCursor<'_>, key: Cow<'_, str>| {
            let (bit, plain_type) = self.find(&key).ok_or(())?;
            let fits = match (cursor.kind(), plain_type) {
                (JsonKind::Text, PlainType::Text) | (JsonKind::Boolean, PlainType::Boolean) => true,
                (JsonKind::Number, PlainType::Number) => true,
                (JsonKind::Number, PlainType::Integer) => {
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
        JsonCursor::new(arguments, 0).members(visit).is_ok() && given & self.required == self.required
    }
}

fn only(schema: &Map<String, Value>, known: &[&str]) -> bool {
    schema.keys().all(|key| known.contains(&key.as_str()))
}

fn plain_type(property: &Value) -> Option<PlainType> {
    let property = property.as_object().filter(|property| only(property, &OF_ARGUMENTS))?;
    match property.get("type")?.as_str()? {
        "string" => Some(PlainType::Text),
        "number" => Some(PlainType::Number),
        "integer" => Some(PlainType::Integer),
        "boolean" => Some(PlainType::Boolean),
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
    fn only_certainly_valid_arguments_are_accepted() {
        let fast_path = FastPath::of(&schema()).expect("a fast path");
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
            assert_eq!(fast_path.takes(arguments), taken, "{arguments}");
        }
        for odd in [
            json!({"properties": {}, "patternProperties": {}}),
            json!({"type": ["object", "null"], "properties": {}}),
            json!({"properties": {"a": {"type": "array"}}, "required": ["a"]}),
            json!({"properties": {}, "maxProperties": 1}),
            json!(true),
        ] {
            assert!(FastPath::of(&odd).is_none(), "{odd}");
        }
    }

    proptest! {
        /// A full check accepts everything that the fast path accepts.
        #[test]
        fn no_invalid_arguments_are_accepted(members in prop::collection::btree_map(
            prop::sample::select(vec!["s", "n", "f", "b", "e", "p", "z"]),
            prop::sample::select(vec!["\"x\"", "1", "-2.5", "1e2", "true", "null", "[]", "{}", "\"\""]), 0..7))
        {
            let text: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
            let text = format!("{{{}}}", text.join(", "));
            let tree: Value = serde_json::from_str(&text).expect("JSON");
            let full = jsonschema::validator_for(&schema()).expect("a schema");
            if FastPath::of(&schema()).expect("a fast path").takes(&text) {
                prop_assert!(full.is_valid(&tree), "{}", text);
            }
        }
    }
}
