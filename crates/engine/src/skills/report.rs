//! Writes the outcome of a run as the result of a tool.

use super::executor::PlanOutcome;
use crate::answer::{Answer, ResultFacts};
use serde_json::{Value, json};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::skill::{RunState, StepState};
use toolbooth_wire::Era;
use uuid::Uuid;

/// The result of a run: the state and the outcome of each step, as text and as structured content.
pub(super) fn answer(skill: &str, run: Uuid, outcome: &PlanOutcome) -> Answer {
    let report = json!({
        "skill": skill, "run": run, "state": outcome.state.as_str(), "steps": outcome.steps,
    });
    let mut blocks = vec![json!({ "type": "text", "text": report.to_string() })];
    let held = outcome.steps.iter().filter(|(_, record)| record.state == StepState::Held);
    for (step, record) in held {
        let id = record.held.map(|id| id.to_string()).unwrap_or_default();
        let text = format!(
            "Step `{step}` waits for a person as {id}. When it is approved, it runs; the steps after it do not. \
             Run the skill again afterwards if they are needed."
        );
        blocks.push(json!({ "type": "text", "text": text }));
    }
    result(blocks, Some(report), outcome.state == RunState::Failed)
}

/// The result of a run that was refused before any step.
pub(super) fn refusal(problem: &Problem) -> Answer {
    let text = format!("[{}] {}", problem.code, problem.sentence());
    result(vec![json!({ "type": "text", "text": text })], None, true)
}

fn result(content: Vec<Value>, structured: Option<Value>, is_error: bool) -> Answer {
    let mut result = json!({ "content": content });
    if let Some(structured) = structured {
        result["structuredContent"] = structured;
    }
    if is_error {
        result["isError"] = Value::Bool(true);
    }
    let facts = ResultFacts { is_error, has_extras: false, odd_structure: false };
    Answer::Result { result: RawJson::from_value(&result), era: Era::Legacy, facts, warnings: Vec::new() }
}
