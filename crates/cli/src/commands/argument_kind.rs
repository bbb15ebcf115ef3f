//! Converts text to the JSON type that a schema requires.

use serde_json::Value;

/// The maximum depth of alternatives and references.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ArgumentKind {
    Boolean,
    Integer,
    Number,
    Array,
    Object,
    String,
    Null,
}

impl ArgumentKind {
    const ALL: [(&'static str, Self); 7] = [
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("array", Self::Array),
        ("object", Self::Object),
        ("string", Self::String),
        ("null", Self::Null),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind)
    }

    /// The type in words, for messages.
    fn in_words(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Array => "a list in JSON",
            Self::Object => "an object in JSON",
            Self::String => "a string",
            Self::Null => "null",
        }
    }
}

/// An enum value as it is written on the command line.
fn word_of(choice: &Value) -> String {
    choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)
}

/// The type of an argument, for tables.
pub fn kind_of(property: &Value) -> String {
    if let Some(values) = property["enum"].as_array() {
        return values.iter().map(word_of).collect::<Vec<_>>().join("|");
    }
    let kinds = kinds(&Value::Null, property, 0);
    let names = kinds.iter().filter_map(|kind| ArgumentKind::ALL.iter().find(|(_, known)| known == kind));
    let names: Vec<&str> = names.map(|(name, _)| *name).filter(|name| *name != "null").collect();
    match (names.as_slice(), property["items"]["type"].as_str()) {
        ([], _) => "any".to_owned(),
        (["array"], Some(item)) => format!("{item} list"),
        (["array"], None) => "list".to_owned(),
        (names, _) => names.join("|"),
    }
}

/// Whether an argument may be repeated.
pub fn is_list(root: &Value, property: &Value) -> bool {
    kinds(root, property, 0).contains(&ArgumentKind::Array)
}

/// Converts a text to JSON of the required type. The error names the expected type.
pub fn value(root: &Value, property: &Value, text: &str) -> Result<String, String> {
    let quoted = || Value::from(text).to_string();
    if let Some(choices) = property["enum"].as_array() {
        let chosen = choices.iter().find(|choice| word_of(choice) == text);
        return chosen.map(Value::to_string).ok_or_else(|| format!("one of {}", kind_of(property)));
    }
    let kinds = kinds(root, property, 0);
    if kinds.is_empty() {
        return Ok(quoted());
    }
    for kind in &kinds {
        let read = match kind {
            ArgumentKind::String => Some(quoted()),
            ArgumentKind::Boolean => matches!(text, "true" | "false").then(|| text.to_owned()),
            ArgumentKind::Integer => is_integer(text).then(|| text.to_owned()),
            ArgumentKind::Number => {
                serde_json::from_str::<serde_json::Number>(text).is_ok().then(|| text.to_owned())
            }
            ArgumentKind::Object => json_of(text, '{'),
            // A single element may be given without brackets.
            ArgumentKind::Array => json_of(text, '[').or_else(|| {
                let alone = !text.starts_with('[') && !kinds.contains(&ArgumentKind::String);
                alone
                    .then(|| {
                        value(root, follow(root, property).get("items").unwrap_or(&Value::Null), text).ok()
                    })?
                    .map(|item| format!("[{item}]"))
            }),
            ArgumentKind::Null => (text == "null").then(|| text.to_owned()),
        };
        if let Some(read) = read {
            return Ok(read);
        }
    }
    let expected: Vec<&str> =
        kinds.iter().filter(|kind| **kind != ArgumentKind::Null).map(|kind| kind.in_words()).collect();
    Err(expected.join(" or "))
}

/// Whether a text is a JSON integer of any length.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
}

fn json_of(text: &str, opening: char) -> Option<String> {
    let parses =
        text.trim_start().starts_with(opening) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    parses.then(|| text.to_owned())
}

/// Follows `$ref` inside the schema.
fn follow<'a>(root: &'a Value, property: &'a Value) -> &'a Value {
    let mut at = property;
    for _ in 0..MAX_DEPTH {
        let Some(found) =
            at["$ref"].as_str().and_then(|at| at.strip_prefix('#')).and_then(|at| root.pointer(at))
        else {
            break;
        };
        at = found;
    }
    at
}

/// The types that an argument may have, the most specific first.
fn kinds(root: &Value, property: &Value, depth: usize) -> Vec<ArgumentKind> {
    let property = follow(root, property);
    let mut found: Vec<ArgumentKind> = match &property["type"] {
        Value::String(name) => ArgumentKind::named(name).into_iter().collect(),
        Value::Array(names) => names.iter().filter_map(|name| ArgumentKind::named(name.as_str()?)).collect(),
        _ => Vec::new(),
    };
    if found.is_empty() && depth < MAX_DEPTH {
        for choice in ["anyOf", "oneOf", "allOf"] {
            let choices = property[choice].as_array().into_iter().flatten();
            found.extend(choices.flat_map(|choice| kinds(root, choice, depth + 1)));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_take_the_type_of_the_schema() {
        let root = json!({"$defs": {"Size": {"type": "integer"}}});
        let cases = [
            (json!({"type": "string"}), "5", Ok("\"5\"")),
            (json!({}), "true", Ok("\"true\"")),
            (
                json!({"type": "integer"}),
                "123456789012345678901234567890",
                Ok("123456789012345678901234567890"),
            ),
            (json!({"type": "integer"}), "5.5", Err("a whole number")),
            (json!({"type": "integer"}), "007", Err("a whole number")),
            (json!({"type": "number"}), "-1.50e3", Ok("-1.50e3")),
            (json!({"type": "number"}), "NaN", Err("a number")),
            (json!({"type": "boolean"}), "true", Ok("true")),
            (json!({"type": "boolean"}), "yes", Err("true or false")),
            (json!({"type": "array", "items": {"type": "integer"}}), "[1, 2]", Ok("[1, 2]")),
            (json!({"type": "array", "items": {"type": "integer"}}), "1", Ok("[1]")),
            (json!({"type": "array", "items": {"type": "integer"}}), "x", Err("a list in JSON")),
            (json!({"type": "array"}), "x", Ok("[\"x\"]")),
            (json!({"type": "array"}), "[1,", Err("a list in JSON")),
            (json!({"type": "object"}), "{\"a\": 1}", Ok("{\"a\": 1}")),
            (json!({"type": "object"}), "a", Err("an object in JSON")),
            (json!({"type": ["string", "null"]}), "null", Ok("\"null\"")),
            (json!({"type": ["integer", "null"]}), "null", Ok("null")),
            (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "7", Ok("7")),
            (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "x", Ok("\"x\"")),
            (json!({"$ref": "#/$defs/Size"}), "7", Ok("7")),
            (json!({"$ref": "#/$defs/Gone"}), "7", Ok("\"7\"")),
            (json!({"enum": ["a", 2]}), "2", Ok("2")),
            (json!({"enum": ["a", 2]}), "b", Err("one of a|2")),
        ];
        for (property, text, expected) in cases {
            let found = value(&root, &property, text);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{property} {text}");
        }
    }

    #[test]
    fn recursive_schemas_terminate() {
        let root = json!({"properties": {"a": {"$ref": "#/properties/a"}, "b": {"anyOf": [{"$ref": "#/properties/b"}]}}});
        for name in ["a", "b"] {
            assert_eq!(value(&root, &root["properties"][name], "x"), Ok("\"x\"".into()), "{name}");
        }
    }
}
