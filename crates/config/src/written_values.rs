//! JSON values as they are written into files whose comments are kept: JSON with comments, and TOML.

use jsonc_parser::cst::CstInputValue;
use serde_json::Value;

/// The value for a JSON document.
pub(crate) fn jsonc_of(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(truth) => CstInputValue::Bool(*truth),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(jsonc_of).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, value)| (key.clone(), jsonc_of(value))).collect())
        }
    }
}

/// The value for a TOML document, which has no null: an empty text is written for it.
pub(crate) fn toml_of(value: &Value) -> toml_edit::Value {
    match value {
        Value::Bool(truth) => (*truth).into(),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| number.as_f64().unwrap_or_default().into(), Into::into)
        }
        Value::Array(list) => toml_edit::Value::Array(list.iter().map(toml_of).collect()),
        other => other.as_str().unwrap_or_default().into(),
    }
}
