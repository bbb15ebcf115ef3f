//! Skills: instructions for models, with the tools that they need and, if they have one, a plan of steps.
//!
//! `config` reads `SKILL.md` folders and `skills.json` files into [`Skill`]. Clients get a skill as a prompt and as
//! `skill://` resources. A skill with a plan is a tool as well (`manifest/skill_tool.rs`): the engine runs the steps of
//! its [`StepPlan`] as ordinary calls of the same caller. Jobs use step plans, too.

mod condition;
mod fault;
mod file;
mod record;
mod references;
mod step_plan;

pub use condition::Condition;
pub use fault::{PlanFault, SkillFault};
pub use file::{FileContent, SkillFile, find_file, uri_of};
pub use record::{
    MAX_RESULTS_BYTES, RunState, StepError, StepRecord, StepRecords, StepState, is_within_limit, results_of,
};
pub use references::{MissingValue, StepValues};
pub use step_plan::{MAX_STEPS, Readiness, SkillStep, StepPlan};

use crate::json::{ObjectWriter, RawJson};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The time that a skill has for all of its steps, unless it says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// The maximum size of a skill's instructions.
pub const MAX_INSTRUCTIONS_BYTES: usize = 256 * 1024;
/// The maximum size of a skill's description.
pub const MAX_DESCRIPTION_BYTES: usize = 4 * 1024;

/// A skill.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// Its name, which is valid as the name of a prompt.
    pub name: String,
    /// The persona it belongs to; absent for a shared skill. It shadows the shared skill of the same name.
    pub persona: Option<String>,
    /// The file and position that define it, for people.
    pub origin: String,
    /// Its version, as written.
    pub version: Option<String>,
    /// A line for lists.
    pub summary: Option<String>,
    /// What it does and when to use it, for models.
    pub description: Option<String>,
    /// The instructions for models.
    pub instructions: String,
    /// The tools that it needs, as written.
    pub required_tools: Vec<String>,
    /// Capabilities that some tool must have: canonical tags, sorted.
    pub required_capabilities: Vec<String>,
    /// What to be careful about.
    pub safety_notes: Option<String>,
    /// Its category.
    pub category: Option<String>,
    /// Tags of what it offers: canonical, sorted.
    pub capability_tags: Vec<String>,
    /// How several models work on it together, for programs that do so. The gateway only shows it.
    pub collaboration: Option<Value>,
    /// A caller must be in one of these groups; absent means everyone.
    pub groups: Option<Vec<String>>,
    /// The schema of its arguments, if it declares one.
    pub parameters: Option<RawJson>,
    /// The time that it has for all of its steps.
    pub timeout: Option<Duration>,
    /// Its steps.
    pub plan: Option<Arc<StepPlan>>,
    /// The files that clients can read, the instructions first.
    pub files: Vec<SkillFile>,
}

impl Skill {
    /// The text that says what it does: its description, or else its summary.
    pub fn about(&self) -> Option<&str> {
        self.description.as_deref().or(self.summary.as_deref())
    }

    /// Whether it is a tool as well, because it has a plan.
    pub fn is_tool(&self) -> bool {
        self.plan.is_some()
    }

    /// The URI of its instructions.
    pub fn uri(&self) -> String {
        let path = self.files.first().map_or("SKILL.md", |file| file.path.as_str());
        uri_of(&self.name, path)
    }

    /// The names of all tools that it uses, each once: the required ones, then those of its steps.
    pub fn tools(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let steps = self.plan.iter().flat_map(|plan| plan.steps().iter().map(|step| step.tool.as_str()));
        for name in self.required_tools.iter().map(String::as_str).chain(steps) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The schema of the arguments of its tool: its own, or an object with the arguments that its steps use.
    pub fn schema(&self) -> RawJson {
        if let Some(parameters) = &self.parameters {
            return parameters.clone();
        }
        let plan = self.plan.iter();
        let names = plan.clone().flat_map(|plan| plan.argument_names());
        let properties: Map<String, Value> = names.map(|name| (name.clone(), json!({}))).collect();
        let required: Vec<&String> = plan.flat_map(|plan| plan.required_names()).collect();
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        });
        RawJson::from_value(&schema)
    }

    /// Its definition in a list of prompts.
    pub fn prompt_definition(&self) -> RawJson {
        let mut definition = ObjectWriter::with_capacity(128);
        definition.text("name", &self.name);
        if let Some(about) = self.about() {
            definition.text("description", about);
        }
        definition.finish()
    }

    /// The result of `prompts/get`: one message of the user with the instructions.
    pub fn prompt_result(&self) -> RawJson {
        let mut result = ObjectWriter::with_capacity(self.instructions.len() + 128);
        if let Some(about) = self.about() {
            result.text("description", about);
        }
        let content = json!({ "type": "text", "text": self.instructions });
        result.raw("messages", &RawJson::from_value(&json!([{ "role": "user", "content": content }])));
        result.finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A shared skill without tools, for tests.
    pub(crate) fn skill(name: &str) -> Skill {
        Skill {
            name: name.to_owned(),
            persona: None,
            origin: "test".to_owned(),
            version: None,
            summary: None,
            description: Some("Writes a brief.".to_owned()),
            instructions: "Write it.".to_owned(),
            required_tools: Vec::new(),
            required_capabilities: Vec::new(),
            safety_notes: None,
            category: None,
            capability_tags: Vec::new(),
            collaboration: None,
            groups: None,
            parameters: None,
            timeout: None,
            plan: None,
            files: Vec::new(),
        }
    }

    #[test]
    fn a_skill_is_written_as_a_prompt() {
        let brief = skill("brief");
        assert_eq!(brief.prompt_definition().as_str(), r#"{"name":"brief","description":"Writes a brief."}"#);
        assert!(brief.prompt_result().as_str().contains("Write it."));
    }

    #[test]
    fn the_arguments_of_a_plan_are_its_schema() {
        let arguments = json!({ "q": "${arguments.topic}" });
        let steps = json!([{ "id": "a", "tool": "t", "arguments": arguments, "when": "${arguments.deep}" }]);
        let plan = StepPlan::read(&steps).expect("a plan");
        let planned = Skill { plan: Some(Arc::new(plan)), required_tools: vec!["u".into()], ..skill("s") };
        let schema: Value = planned.schema().read().expect("JSON");
        assert_eq!(schema["required"], json!(["topic"]));
        assert_eq!(schema["properties"], json!({ "deep": {}, "topic": {} }));
        assert_eq!(planned.tools(), ["u", "t"]);
    }
}
