//! A plan: steps with a tool, its arguments and a reason, each checked against the catalog.

use super::catalog::PlannerCatalog;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolbooth_core::json::RawJson;

/// The maximum number of steps.
const MAX_STEPS: usize = 50;
/// The maximum number of reported problems.
const MAX_PROBLEMS: usize = 20;

/// A plan whose steps are all valid.
#[derive(Debug)]
pub(super) struct TaskPlan {
    pub(super) steps: Vec<TaskStep>,
}

/// One call of a plan.
#[derive(Debug)]
pub(super) struct TaskStep {
    pub(super) tool: String,
    /// An object, exactly as the model wrote it.
    pub(super) arguments: RawJson,
    pub(super) why: String,
}

#[derive(Deserialize)]
struct DraftPlan {
    steps: Vec<DraftStep>,
}

#[derive(Deserialize)]
struct DraftStep {
    tool: String,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
    #[serde(default)]
    why: String,
}

impl TaskPlan {
    /// Parses a model's answer; the error lists all problems.
    pub(super) fn read(answer: &str, known: &PlannerCatalog) -> Result<Self, Vec<String>> {
        // Models often surround JSON with words or code fences; the first object is the plan.
        let start = answer.find('{').ok_or_else(|| vec!["the answer has no JSON object".to_owned()])?;
        let mut objects = serde_json::Deserializer::from_str(&answer[start..]).into_iter::<DraftPlan>();
        let written = match objects.next() {
            Some(Ok(written)) => written,
            Some(Err(error)) => return Err(vec![format!("the answer is not a plan: {error}")]),
            None => return Err(vec!["the answer has no JSON object".into()]),
        };
        match written.steps.len() {
            0 => return Err(vec!["the plan has no steps".into()]),
            many if many > MAX_STEPS => {
                return Err(vec![format!("the plan has {many} steps, and at most {MAX_STEPS} are allowed")]);
            }
            _ => {}
        }
        let mut problems = Vec::new();
        let mut steps = Vec::new();
        for (index, DraftStep { tool, arguments, why }) in written.steps.into_iter().enumerate() {
            let arguments = arguments.and_then(|text| RawJson::parse(text.get().to_owned()).ok());
            let arguments = arguments.unwrap_or_else(RawJson::empty_object);
            let number = index + 1;
            if arguments.is_object() {
                let objections = known.objections(&tool, &arguments);
                problems.extend(objections.into_iter().map(|what| format!("step {number}: {what}")));
            } else {
                problems.push(format!("step {number}: `arguments` must be an object"));
            }
            steps.push(TaskStep { tool, arguments, why });
        }
        problems.truncate(MAX_PROBLEMS);
        if problems.is_empty() { Ok(Self { steps }) } else { Err(problems) }
    }

    /// The plan as JSON.
    pub(super) fn to_json(&self, task: &str) -> Value {
        let step = |step: &TaskStep| {
            let arguments: Value = step.arguments.read().unwrap_or_else(|_| json!({}));
            json!({"tool": step.tool, "arguments": arguments, "why": step.why})
        };
        json!({"task": task, "steps": self.steps.iter().map(step).collect::<Vec<_>>()})
    }
}
