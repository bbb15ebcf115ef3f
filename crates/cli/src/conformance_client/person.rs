//! The simulated user of the client: accepts every question with the suggested values.

use serde_json::{Map, Value, json};
use toolbooth_core::json::RawJson;
use toolbooth_upstream::{ClientQuestion, LinkEvent, LinkEvents};
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::METHOD_NOT_FOUND;

/// The client capabilities of the simulated user.
pub(super) fn capabilities() -> RawJson {
    RawJson::from_value(&json!({ "elicitation": { "form": {} }, "sampling": {}, "roots": {} }))
}

/// The roots of the simulated user.
pub(super) fn roots() -> Value {
    json!([{ "uri": "file:///workspace", "name": "workspace" }])
}

/// A string in an object.
pub(super) fn text_of(object: &Value, key: &str) -> Option<String> {
    object[key].as_str().map(str::to_owned)
}

/// Answers every question of a call, until it is dropped.
pub(super) async fn answer(mut events: LinkEvents) {
    while let Some(event) = events.recv().await {
        if let LinkEvent::Question(ClientQuestion { method, params, reply, .. }) = event {
            let params = params.and_then(|params| params.read::<Value>().ok()).unwrap_or(Value::Null);
            // The server may no longer wait for the answer.
            let _ = reply.send(reply_to(&method, &params));
        }
    }
}

fn reply_to(method: &str, params: &Value) -> Result<RawJson, RpcError> {
    let reply = match method {
        "elicitation/create" => json!({ "action": "accept", "content": filled(&params["requestedSchema"]) }),
        "sampling/createMessage" => json!({
            "role": "assistant", "model": "conformance", "stopReason": "endTurn",
            "content": { "type": "text", "text": "An answer of the conformance client." },
        }),
        "roots/list" => json!({ "roots": roots() }),
        other => return Err(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {other}"))),
    };
    Ok(RawJson::from_value(&reply))
}

/// An object for a schema: the default of each property, or a value of its type.
pub(super) fn filled(schema: &Value) -> Value {
    let Some(properties) = schema["properties"].as_object() else { return Value::Object(Map::new()) };
    let fill = |(name, property): (&String, &Value)| (name.clone(), fill_one(property));
    Value::Object(properties.iter().map(fill).collect())
}

fn fill_one(property: &Value) -> Value {
    if let Some(default) = property.get("default") {
        return default.clone();
    }
    if let Some(first) = property["enum"].get(0) {
        return first.clone();
    }
    match property["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer" | "number") => property.get("minimum").cloned().unwrap_or(json!(7)),
        Some("array") => json!([]),
        Some("object") => filled(property),
        Some("null") => Value::Null,
        _ => json!("text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_filled_with_its_defaults() {
        let schema = json!({ "type": "object", "properties": {
            "name": { "type": "string", "default": "Ann" },
            "confirmed": { "type": "boolean" },
            "off": { "type": "boolean", "default": false },
            "age": { "type": "integer", "minimum": 18 },
            "colour": { "type": "string", "enum": ["red", "green"] },
        }});
        let expected = json!({ "name": "Ann", "confirmed": true, "off": false, "age": 18, "colour": "red" });
        assert_eq!(filled(&schema), expected);
        assert_eq!(filled(&Value::Null), json!({}));
    }
}
