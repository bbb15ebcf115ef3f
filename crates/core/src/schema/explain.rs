//! Describes what is wrong with arguments, in words that a model can act on.

use super::fault::shortened;
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use std::fmt;

/// Maximum number of objections that are listed.
pub(super) const MAX_OBJECTIONS: usize = 8;
/// Maximum number of characters quoted from a schema or an argument.
const MAX_SHOWN: usize = 80;

/// One mistake in the arguments of a call. The value itself is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// The position as a JSON pointer; empty for the arguments as a whole.
    pub pointer: String,
    /// The expected value.
    pub expected: String,
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            return f.write_str(&self.expected);
        }
        write!(f, "at `{}`: {}", self.pointer, self.expected)
    }
}

pub(super) fn objection(error: &ValidationError<'_>) -> Objection {
    let pointer = shortened(error.instance_path().as_str(), 2 * MAX_SHOWN);
    Objection { pointer, expected: expected(error, 0) }
}

fn expected(error: &ValidationError<'_>, depth: usize) -> String {
    let show = |value: &dyn fmt::Display| shortened(&value.to_string(), MAX_SHOWN);
    match error.kind() {
        ValidationErrorKind::Required { property } => format!("{} is required", show(property)),
        ValidationErrorKind::Enum { options } => {
            format!("must be one of {}", shortened(&options.to_string(), 240))
        }
        ValidationErrorKind::Constant { expected_value } => format!("must be {}", show(expected_value)),
        ValidationErrorKind::Pattern { pattern } => format!("must match `{}`", show(pattern)),
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().take(4).map(|name| shortened(name, 40)).collect();
            format!("has unknown properties: {}", names.join(", "))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if depth < 2 =>
        {
            let ways: Vec<String> = context
                .iter()
                .take(4)
                .filter_map(|branch| branch.first())
                .map(|inner| {
                    match inner.instance_path().as_str().strip_prefix(error.instance_path().as_str()) {
                        Some("") | None => expected(inner, depth + 1),
                        Some(below) => {
                            format!("`{}` {}", shortened(below, MAX_SHOWN), expected(inner, depth + 1))
                        }
                    }
                })
                .collect();
            shortened(&ways.join(", or "), 400)
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            "fits more than one of the alternatives (`oneOf`)".into()
        }
        ValidationErrorKind::Type { .. } => {
            let text = error.masked_with("it").to_string();
            let expected = text.split_once("type").map_or(text.as_str(), |(_, expected)| expected);
            let expected = expected.trim_start_matches('s').trim().replace('"', "");
            format!("must be {}, but is {}", shortened(&expected, MAX_SHOWN), kind_of(error.instance()))
        }
        _ => shortened(&error.masked_with("it").to_string(), 2 * MAX_SHOWN),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
