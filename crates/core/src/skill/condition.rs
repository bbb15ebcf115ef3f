//! Conditions of steps: `when` decides whether a step runs.
//!
//! `${...}` alone is true unless the value is missing, null, false, zero or empty. `!${...}` is the opposite, and
//! `${...} == value` and `${...} != value` compare with a JSON value or a plain word.

use super::references::{StepValues, ValueReference};
use serde_json::Value;

/// The condition of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    subject: ConditionSubject,
    test: ConditionTest,
}

#[derive(Debug, Clone, PartialEq)]
enum ConditionSubject {
    Constant(bool),
    Reference(ValueReference),
}

#[derive(Debug, Clone, PartialEq)]
enum ConditionTest {
    IsTrue,
    IsFalse,
    Equals(Value),
    Differs(Value),
}

impl Condition {
    /// Reads a condition; the error is a reason.
    pub(super) fn read(written: &Value) -> Result<Self, String> {
        let text = match written {
            Value::Bool(constant) => {
                return Ok(Self {
                    subject: ConditionSubject::Constant(*constant),
                    test: ConditionTest::IsTrue,
                });
            }
            Value::String(text) => text.trim(),
            _ => return Err("`when` must be a boolean or a string".to_owned()),
        };
        let (is_negated, rest) = match text.strip_prefix('!').or_else(|| text.strip_prefix("not ")) {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        let (inner, after) = rest
            .strip_prefix("${")
            .and_then(|rest| rest.split_once('}'))
            .ok_or("`when` must begin with a reference, such as `${steps.ID.results.ok}`")?;
        let subject = ConditionSubject::Reference(ValueReference::parse(inner)?);
        let after = after.trim();
        let test = match (is_negated, after.get(..2), after.get(2..)) {
            (false, None, _) if after.is_empty() => ConditionTest::IsTrue,
            (true, None, _) if after.is_empty() => ConditionTest::IsFalse,
            (false, Some("=="), Some(value)) if !value.trim().is_empty() => {
                ConditionTest::Equals(literal(value))
            }
            (false, Some("!="), Some(value)) if !value.trim().is_empty() => {
                ConditionTest::Differs(literal(value))
            }
            _ => return Err("after the reference, `when` may have `== value` or `!= value`".to_owned()),
        };
        Ok(Self { subject, test })
    }

    /// Its reference, if it is not a constant.
    pub(super) fn reference(&self) -> Option<&ValueReference> {
        match &self.subject {
            ConditionSubject::Constant(_) => None,
            ConditionSubject::Reference(reference) => Some(reference),
        }
    }

    /// Whether it holds. A missing value is null.
    pub fn holds(&self, values: &StepValues<'_>) -> bool {
        let value = match &self.subject {
            ConditionSubject::Constant(constant) => Value::Bool(*constant),
            ConditionSubject::Reference(reference) => {
                values.value(reference).ok().flatten().unwrap_or(Value::Null)
            }
        };
        match &self.test {
            ConditionTest::IsTrue => is_true(&value),
            ConditionTest::IsFalse => !is_true(&value),
            ConditionTest::Equals(expected) => value == *expected,
            ConditionTest::Differs(expected) => value != *expected,
        }
    }
}

/// A JSON value, or else a plain word, perhaps in single quotes.
fn literal(text: &str) -> Value {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str(text) {
        return value;
    }
    let quoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    Value::String(quoted.unwrap_or(text).to_owned())
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{StepRecord, StepRecords};
    use super::*;
    use serde_json::{Map, json};

    #[test]
    fn conditions_compare_values() {
        let mut steps = StepRecords::new();
        steps.insert("a".into(), StepRecord::succeeded(None, json!({ "ok": true, "n": 0, "word": "yes" })));
        let arguments = Map::new();
        let values = StepValues { arguments: &arguments, steps: &steps };
        let cases = [
            (json!("${steps.a.results.ok}"), true),
            (json!("!${steps.a.results.ok}"), false),
            (json!("not ${steps.a.results.n}"), true),
            (json!("${steps.a.results.gone}"), false),
            (json!("${steps.a.results.word} == yes"), true),
            (json!("${steps.a.results.word} == 'yes'"), true),
            (json!("${steps.a.results.word} != \"yes\""), false),
            (json!("${steps.a.results.n} == 0"), true),
            (json!("${arguments.deep}"), false),
            (json!(false), false),
        ];
        for (written, expected) in cases {
            let condition = Condition::read(&written).expect("a condition");
            assert_eq!(condition.holds(&values), expected, "{written}");
        }
        for bad in [json!("yes"), json!(3), json!("${steps.a.results.n} > 0"), json!("!${arguments.a} == 1")]
        {
            assert!(Condition::read(&bad).is_err(), "{bad}");
        }
    }
}
