//! Writes the outcome of a run as the result of a tool.

use super::executor::{PlanOutcome, RunLabel};
use crate::answer::{Answer, ResultFacts};
use serde_json::{Map, Value, json};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::skill::{RunState, StepPlan, StepState};
use toolbooth_wire::Era;

/// Whether a run whose step is held goes on after the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Continuation {
    /// Its further steps run when the held ones were approved and have run.
    Later,
    /// It has ended.
    None,
}

/// The result of a run: the state and the outcome of each step in the order of the plan, as text and as structured
/// content.
pub(super) fn answer(
    label: &RunLabel,
    plan: &StepPlan,
    outcome: &PlanOutcome,
    continuation: Continuation,
) -> Answer {
    let ids = plan.steps().iter().map(|step| step.id.as_str());
    let records = ids.filter_map(|id| Some((id.to_owned(), json!(outcome.steps.get(id)?))));
    let steps: Map<String, Value> = records.collect();
    let report = json!({
        "skill": label.name, "run": label.run, "state": outcome.state.as_str(), "steps": steps,
    });
    let mut blocks = vec![json!({ "type": "text", "text": report.to_string() })];
    for step in plan.steps() {
        let Some(record) = outcome.steps.get(&step.id) else { continue };
        if record.state != StepState::Held {
            continue;
        }
        let held = record.held.map(|id| id.to_string()).unwrap_or_default();
        let next = match continuation {
            Continuation::Later => format!(
                "When it is approved (`toolbooth approvals approve {held}`), it runs, and then the steps after it; \
                 `toolbooth skills runs {} {}` shows the run.",
                label.name, label.run
            ),
            Continuation::None => format!(
                "When it is approved (`toolbooth approvals approve {held}`), it runs; the steps after it do not. Run \
                 the skill again afterwards if they are needed."
            ),
        };
        let text = format!("Step `{}` waits for approval as {held}. {next}", step.id);
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
    let facts = ResultFacts { is_error, ..ResultFacts::default() };
    Answer::Result { result: RawJson::from_value(&result), era: Era::Legacy, facts, warnings: Vec::new() }
}
