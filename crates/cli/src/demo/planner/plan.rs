//! A plan: steps with a tool, its arguments and a reason, each held against the catalog.

use super::catalog::Known;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolbooth_core::json::RawJson;

/// The most steps.
const MAX_STEPS: usize = 50;
/// The most problems that are told.
const MAX_PROBLEMS: usize = 20;

/// A plan in which every step fits its tool.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
}

/// One call of a plan.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) tool: String,
    /// An object, spelled as the model spelled it.
    pub(super) arguments: RawJson,
    pub(super) why: String,
}

#[derive(Deserialize)]
struct Written {
    steps: Vec<WrittenStep>,
}

#[derive(Deserialize)]
struct WrittenStep {
    tool: String,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
    #[serde(default)]
    why: String,
}

impl Plan {
    /// Reads what a model said; what is wrong with it otherwise.
    pub(super) fn read(said: &str, known: &Known) -> Result<Self, Vec<String>> {
        // Models like to wrap JSON into words or fences; the first object is the plan.
        let start = said.find('{').ok_or_else(|| vec!["the answer holds no JSON object".to_owned()])?;
        let mut objects = serde_json::Deserializer::from_str(&said[start..]).into_iter::<Written>();
        let written = match objects.next() {
            Some(Ok(written)) => written,
            Some(Err(error)) => return Err(vec![format!("the answer is no plan: {error}")]),
            None => return Err(vec!["the answer holds no JSON object".into()]),
        };
        match written.steps.len() {
            0 => return Err(vec!["the plan has no steps".into()]),
            many if many > MAX_STEPS => {
                return Err(vec![format!("the plan has {many} steps, and {MAX_STEPS} are the most")]);
            }
            _ => {}
        }
        let mut problems = Vec::new();
        let mut steps = Vec::new();
        for (index, WrittenStep { tool, arguments, why }) in written.steps.into_iter().enumerate() {
            let arguments = arguments.and_then(|text| RawJson::parse(text.get().to_owned()).ok());
            let arguments = arguments.unwrap_or_else(RawJson::empty_object);
            let number = index + 1;
            if arguments.is_object() {
                let objections = known.objections(&tool, &arguments);
                problems.extend(objections.into_iter().map(|what| format!("step {number}: {what}")));
            } else {
                problems.push(format!("step {number}: `arguments` must be an object"));
            }
            steps.push(Step { tool, arguments, why });
        }
        problems.truncate(MAX_PROBLEMS);
        if problems.is_empty() { Ok(Self { steps }) } else { Err(problems) }
    }

    /// The plan as JSON.
    pub(super) fn to_json(&self, task: &str) -> Value {
        let step = |step: &Step| {
            let arguments: Value = step.arguments.read().unwrap_or_else(|_| json!({}));
            json!({"tool": step.tool, "arguments": arguments, "why": step.why})
        };
        json!({"task": task, "steps": self.steps.iter().map(step).collect::<Vec<_>>()})
    }
}
