//! The token cost of a tool: the parts of its definition that clients send to a model.
//!
//! A client sends a tool's name, its description and the schema of its arguments, as compact JSON. Annotations, output
//! schemas, titles and `_meta` are for the client itself and are not counted. White space and escapes in the server's
//! text are not counted either, because a client parses the definition and serialises it again.
//!
//! The cost is counted on first use and kept with the tool (`Tool::token_cost`).

use super::tokens;
use crate::json::{RawJson, compacted};
use serde_json::Value;

/// The parts of a definition that a model sees, in this order.
const SHOWN: [&str; 3] = ["name", "description", "inputSchema"];

/// The number of tokens of a definition as a model sees it.
pub fn definition_tokens(definition: &RawJson) -> u32 {
    tokens(&model_view(definition))
}

/// A definition as a model sees it.
pub fn model_view(definition: &RawJson) -> String {
    let mut text = String::with_capacity(definition.as_bytes().len());
    for (key, value) in SHOWN.into_iter().zip(definition.pick(SHOWN)) {
        let Some(value) = value else { continue };
        text.push_str(if text.is_empty() { "{\"" } else { ",\"" });
        text.push_str(key);
        text.push_str("\":");
        let read = (!is_compact(value)).then(|| serde_json::from_str::<Value>(value));
        match read {
            Some(Ok(read)) => text.push_str(&read.to_string()),
            // A value that nests too deep to be parsed is left as it is.
            Some(Err(_)) | None => text.push_str(value),
        }
    }
    if text.is_empty() {
        text.push('{');
    }
    text.push('}');
    text
}

/// Whether JSON has no white space between its parts and no escapes in its strings.
fn is_compact(json: &str) -> bool {
    !json.contains('\\') && compacted(json.as_bytes()).is_some_and(|compact| compact.len() == json.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_sees_three_parts_as_compact_json() {
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
            assert_eq!(model_view(&source), expected);
            assert_eq!(definition_tokens(&source), tokens(expected));
        }
    }
}
