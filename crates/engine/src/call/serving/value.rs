//! Results of providers: the value that a mapping gets from them, and the result that is made from a mapped value.

use crate::answer::{Answer, ResultFacts};
use crate::routing::{ATTEMPTS, PROVIDER};
use serde_json::{Value, json};
use toolbooth_core::json::{RawJson, with_members};
use toolbooth_core::manifest::Mapping;
use toolbooth_upstream::rest_tool::RestAnswer;
use toolbooth_wire::Era;

/// A result made from a value: always as text, and as structured content if it is an object.
pub(super) fn of_value(value: &Value) -> RawJson {
    let text = toolbooth_core::provider::text_of(value);
    let mut result = json!({ "content": [{ "type": "text", "text": text }] });
    if value.is_object() {
        result["structuredContent"] = value.clone();
    }
    RawJson::from_value(&result)
}

/// The result of an HTTP service.
pub(super) fn of_rest(answer: RestAnswer, mapping: Option<&Mapping>) -> Result<Answer, String> {
    let result = match answer {
        RestAnswer::Json(value) => of_value(&mapped(value, mapping)?),
        RestAnswer::Text(text) => of_value(&mapped(Value::String(text), mapping)?),
        RestAnswer::Media { mime, base64 } => {
            let kind = if mime.starts_with("audio/") { "audio" } else { "image" };
            RawJson::from_value(&json!({"content": [{"type": kind, "data": base64, "mimeType": mime}]}))
        }
        RestAnswer::Refused { status, text } => {
            let text = format!("HTTP {status}: {text}");
            let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
            return Ok(finished(RawJson::from_value(&result), ResultFacts { is_error: true, ..FACTS }));
        }
    };
    Ok(finished(result, FACTS))
}

const FACTS: ResultFacts =
    ResultFacts { is_error: false, odd_structure: false, has_extras: false, is_task: false };

/// A finished answer that the gateway made itself.
pub(super) fn finished(result: RawJson, facts: ResultFacts) -> Answer {
    Answer::Result { result, era: Era::Legacy, facts, warnings: Vec::new() }
}

/// A result with one text block.
pub(super) fn of_text(text: String) -> Answer {
    finished(of_value(&Value::String(text)), FACTS)
}

fn mapped(value: Value, mapping: Option<&Mapping>) -> Result<Value, String> {
    match mapping {
        None => Ok(value),
        Some(mapping) => {
            let made = mapping.apply(&value).map_err(|error| error.to_string())?;
            Ok(made.unwrap_or(Value::Null))
        }
    }
}

/// Applies a result mapping to a tool's answer. A tool error is passed on unchanged.
pub(super) fn remapped(answer: Answer, mapping: &Mapping) -> Result<Answer, String> {
    let Answer::Result { result, era, facts, warnings } = answer else { return Ok(answer) };
    if facts.is_error {
        return Ok(Answer::Result { result, era, facts, warnings });
    }
    let made = of_value(&mapped(value_of(&result), Some(mapping))?);
    let meta = result.member("_meta").filter(RawJson::is_object);
    let result = match meta {
        Some(meta) => with_members(&made, &[("_meta", meta)]).unwrap_or(made),
        None => made,
    };
    Ok(Answer::Result { result, era, facts: ResultFacts { odd_structure: false, ..facts }, warnings })
}

/// The value that a mapping gets: the structured content, else the text, parsed as JSON if possible.
fn value_of(result: &RawJson) -> Value {
    if let Some(structured) = result.member("structuredContent").and_then(|value| value.read().ok()) {
        return structured;
    }
    let blocks = result.member("content").and_then(|content| content.elements().ok()).unwrap_or_default();
    let texts: Vec<String> = blocks
        .iter()
        .filter_map(|block| block.member("text").and_then(|text| text.string().map(Into::into)))
        .collect();
    let text = texts.join("\n");
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// Adds to a result the provider that served it and the number of attempts.
pub(crate) fn marked(answer: Answer, provider: Option<&str>, attempts: u32) -> Answer {
    let Answer::Result { result, era, mut facts, warnings } = answer else { return answer };
    let mut marks: Vec<(&str, RawJson)> = Vec::new();
    if let Some(provider) = provider {
        marks.push((PROVIDER, RawJson::from_value(provider)));
    }
    if attempts > 1 {
        marks.push((ATTEMPTS, RawJson::from_value(&attempts)));
    }
    let meta = result.member("_meta").filter(RawJson::is_object).unwrap_or_else(RawJson::empty_object);
    let with = with_members(&meta, &marks).and_then(|meta| with_members(&result, &[("_meta", meta)]));
    facts.has_extras |= with.is_ok();
    Answer::Result { result: with.unwrap_or(result), era, facts, warnings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_gets_structured_content_or_else_text() {
        let cases = [
            (json!({"structuredContent": {"a": {"b": 1}}, "content": []}), json!({"x": 1})),
            (json!({"content": [{"type": "text", "text": "{\"a\":{\"b\":2}}"}]}), json!({"x": 2})),
            (json!({"content": [{"type": "text", "text": "plain"}]}), json!({})),
        ];
        let mapping = Mapping(json!({"x": "{a.b}"}));
        for (result, expected) in cases {
            let answer = finished(RawJson::from_value(&result), FACTS);
            let Ok(Answer::Result { result, .. }) = remapped(answer, &mapping) else { panic!("a result") };
            assert_eq!(result.member("structuredContent"), Some(RawJson::from_value(&expected)));
        }
    }

    #[test]
    fn provider_and_attempts_are_added_to_the_servers_meta() {
        let result = RawJson::from_value(&json!({"content": [], "_meta": {"a": 1}}));
        let Answer::Result { result, facts, .. } = marked(finished(result, FACTS), Some("mcp:x"), 2) else {
            panic!("a result")
        };
        assert_eq!(
            result.as_str(),
            r#"{"content":[],"_meta":{"a":1,"toolbooth/provider":"mcp:x","toolbooth/attempts":2}}"#
        );
        assert!(facts.has_extras);
    }
}
