//! The outcomes of the steps of a plan.

use crate::fault::Problem;
use crate::json::RawJson;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The maximum size of the results that are kept of one step.
pub const MAX_RESULTS_BYTES: usize = 1 << 20;

/// The state of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Its call succeeded.
    Succeeded,
    /// Its call failed, or its arguments could not be filled in.
    Failed,
    /// Its call waits for a person, and was not made.
    Held,
    /// Its condition was false.
    Skipped,
    /// It was not started: a step that it comes after failed, or the run ended.
    Cancelled,
    /// It was not started: a step that it comes after waits for a person.
    Waiting,
}

impl StepState {
    /// The word used in all interfaces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Waiting => "waiting",
        }
    }
}

/// The state of a run of all steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Every step succeeded or was skipped.
    Succeeded,
    /// A step failed.
    Failed,
    /// No step failed, and at least one waits for a person.
    Held,
}

impl RunState {
    /// The state of a run with these outcomes.
    pub fn of(steps: &StepRecords) -> Self {
        let any = |state: StepState| steps.values().any(|record| record.state == state);
        if any(StepState::Failed) || any(StepState::Cancelled) {
            Self::Failed
        } else if any(StepState::Held) || any(StepState::Waiting) {
            Self::Held
        } else {
            Self::Succeeded
        }
    }

    /// The word used in all interfaces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Held => "held",
        }
    }
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepError {
    /// The code of the fault.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// What to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl From<&Problem> for StepError {
    fn from(problem: &Problem) -> Self {
        Self { code: problem.code.to_owned(), message: problem.message.clone(), hint: problem.hint.clone() }
    }
}

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its state.
    pub state: StepState,
    /// The id of its call, if it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Uuid>,
    /// The id of the held call, if it waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Uuid>,
    /// What its call returned, for later steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StepError>,
    /// When its call began, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<i64>,
    /// When its call ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
}

/// The outcomes of steps, by their ids.
pub type StepRecords = BTreeMap<String, StepRecord>;

impl StepRecord {
    /// A record with nothing but a state.
    pub fn of_state(state: StepState) -> Self {
        Self { state, call: None, held: None, results: None, error: None, started_ms: None, ended_ms: None }
    }

    /// A step that succeeded.
    pub fn succeeded(call: Option<Uuid>, results: Value) -> Self {
        Self { call, results: Some(results), ..Self::of_state(StepState::Succeeded) }
    }

    /// A step that failed.
    pub fn failed(call: Option<Uuid>, problem: &Problem) -> Self {
        Self { call, error: Some(problem.into()), ..Self::of_state(StepState::Failed) }
    }

    /// Whether steps after this one may start.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, StepState::Succeeded | StepState::Skipped)
    }

    /// Whether a later run keeps this outcome, so that the step is not run again.
    pub fn is_kept(&self) -> bool {
        !matches!(self.state, StepState::Cancelled | StepState::Waiting)
    }
}

/// Whether results are small enough to be kept.
pub fn is_within_limit(results: &Value) -> bool {
    results.to_string().len() <= MAX_RESULTS_BYTES
}

/// The value of a tool's result that later steps refer to: its structured content, else its text, read as JSON if it
/// is JSON. If that value is an object with `results` (or only `result`), the value of that member.
pub fn results_of(result: &RawJson) -> Value {
    let structured = result.member("structuredContent").and_then(|value| value.read::<Value>().ok());
    let value = structured.filter(|value| !value.is_null()).unwrap_or_else(|| text_value(result));
    match value {
        Value::Object(mut members) if members.contains_key("results") => {
            members.remove("results").unwrap_or(Value::Null)
        }
        Value::Object(mut members) if members.len() == 1 && members.contains_key("result") => {
            members.remove("result").unwrap_or(Value::Null)
        }
        other => other,
    }
}

fn text_value(result: &RawJson) -> Value {
    let blocks = result.member("content").and_then(|content| content.elements().ok()).unwrap_or_default();
    let texts =
        blocks.iter().filter_map(|block| block.member("text")?.string().map(|text| text.into_owned()));
    let text = texts.collect::<Vec<String>>().join("\n");
    match serde_json::from_str::<Value>(&text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => Value::String(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_are_structured_content_or_text() {
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        let cases = [
            (json!({ "content": [], "structuredContent": { "url": "x" } }), json!({ "url": "x" })),
            (json!({ "content": [], "structuredContent": { "result": [1] } }), json!([1])),
            (text(r#"{"results":{"url":"x"},"meta_data":{}}"#), json!({ "url": "x" })),
            (text(r#"[1,2]"#), json!([1, 2])),
            (text("42"), json!("42")),
            (text("plain"), json!("plain")),
            (json!({}), json!("")),
        ];
        for (result, expected) in cases {
            assert_eq!(results_of(&RawJson::from_value(&result)), expected, "{result}");
        }
    }

    #[test]
    fn a_run_fails_if_a_step_fails_and_waits_if_one_is_held() {
        let run = |states: &[StepState]| {
            let records = states.iter().enumerate();
            RunState::of(&records.map(|(id, state)| (id.to_string(), StepRecord::of_state(*state))).collect())
        };
        use StepState::{Cancelled, Failed, Held, Skipped, Succeeded, Waiting};
        assert_eq!(run(&[Succeeded, Skipped]), RunState::Succeeded);
        assert_eq!(run(&[Succeeded, Held, Waiting]), RunState::Held);
        assert_eq!(run(&[Failed, Held, Cancelled]), RunState::Failed);
        let record = StepRecord::succeeded(None, json!(1));
        let stored = serde_json::to_string(&record).expect("JSON");
        assert_eq!(stored, r#"{"state":"succeeded","results":1}"#);
        assert_eq!(serde_json::from_str::<StepRecord>(&stored).expect("a record"), record);
    }
}
