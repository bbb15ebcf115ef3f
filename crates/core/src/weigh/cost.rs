//! What a tool costs a model: of its definition, the parts that clients put before one.
//!
//! A client hands on a tool's name, its description and the schema of its arguments, as compact JSON.
//! Annotations, output schemas, titles and `_meta` are for the client itself and are not counted. Neither are
//! spaces and escapes that a server happened to write: a client reads the definition and writes it anew.

use super::tokens;
use crate::json::RawJson;
use serde_json::Value;

/// The parts of a definition that a model is shown, in this order.
const SHOWN: [&str; 3] = ["name", "description", "inputSchema"];

/// The tokens of a definition, as a model is shown it.
pub fn definition(definition: &RawJson) -> u32 {
    tokens(&shown(definition))
}

/// A definition as a model is shown it.
pub fn shown(definition: &RawJson) -> String {
    let mut text = String::with_capacity(definition.as_bytes().len());
    for (key, value) in SHOWN.into_iter().zip(definition.pick(SHOWN)) {
        let Some(value) = value else { continue };
        text.push_str(if text.is_empty() { "{\"" } else { ",\"" });
        text.push_str(key);
        text.push_str("\":");
        let read = (!is_compact(value)).then(|| serde_json::from_str::<Value>(value));
        match read {
            Some(Ok(read)) => text.push_str(&read.to_string()),
            // What is too deep to be read stays as it is.
            Some(Err(_)) | None => text.push_str(value),
        }
    }
    if text.is_empty() {
        text.push('{');
    }
    text.push('}');
    text
}

/// Whether JSON has no spaces between its parts and no escapes in its texts.
fn is_compact(json: &str) -> bool {
    let mut is_text = false;
    json.bytes().all(|byte| {
        is_text ^= byte == b'"';
        byte != b'\\' && (is_text || !byte.is_ascii_whitespace())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_shown_three_parts_as_compact_json() {
        let cases = [
            ("{}", "{}"),
            (r#"{"title":"x"}"#, "{}"),
            (
                r#"{"inputSchema": {"type": "object", "b": 1, "a": [1, 2]}, "title": "T", "name": "a_b", "annotations": {}}"#,
                r#"{"name":"a_b","inputSchema":{"type":"object","b":1,"a":[1,2]}}"#,
            ),
            (
                r#"{"description":"gr\u00fcn \u2014 \"so\"","name":"c"}"#,
                r#"{"name":"c","description":"grün — \"so\""}"#,
            ),
        ];
        for (source, expected) in cases {
            let source = RawJson::parse(source.to_owned()).expect("JSON");
            assert_eq!(shown(&source), expected);
            assert_eq!(definition(&source), tokens(expected));
        }
    }
}
