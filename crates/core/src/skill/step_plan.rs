//! Step plans: steps that call tools, each after the steps that it depends on.
//!
//! A plan is checked as a whole when it is read: ids are unique, every step and reference that it names exists, and no
//! step waits for itself. A step that refers to the results of another one comes after it, whether or not `after` says
//! so.

use super::condition::Condition;
use super::fault::PlanFault;
use super::record::{StepRecords, StepState};
use super::references::{ValueReference, ValueSource, argument_names, references_in};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The maximum number of steps of a plan.
pub const MAX_STEPS: usize = 100;
/// The maximum size of a plan as JSON.
const MAX_PLAN_BYTES: usize = 512 * 1024;
/// The maximum length of a tool's name.
const MAX_TOOL_NAME: usize = 256;
/// The maximum length of a step's id.
const MAX_ID: usize = 64;
/// The maximum timeout of a step.
const MAX_STEP_SECONDS: f64 = 86_400.0;
/// All keys of a step. `description`, `name` and `metadata` are for people.
const KEYS: [&str; 11] = [
    "id",
    "tool",
    "after",
    "depends_on",
    "arguments",
    "inputs",
    "when",
    "timeout",
    "description",
    "name",
    "metadata",
];

/// One step of a plan: a call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillStep {
    /// Its id, unique in its plan.
    pub id: String,
    /// The name of the tool, in any accepted spelling.
    pub tool: String,
    /// The steps that must be finished first, including those that it refers to.
    pub after: Vec<String>,
    /// Its arguments, with references.
    pub arguments: Map<String, Value>,
    /// Whether it runs at all.
    pub when: Option<Condition>,
    /// The time that its call has; absent for the tool's own.
    pub timeout: Option<Duration>,
    /// What it is for, for people.
    pub description: Option<String>,
}

/// A checked plan. Its steps are in an order in which each comes after those that it depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct StepPlan {
    steps: Vec<SkillStep>,
    argument_names: BTreeSet<String>,
    required_names: BTreeSet<String>,
    written: Value,
}

/// Whether a step can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// All steps before it are finished.
    Ready,
    /// A step before it is not finished yet.
    NotYet,
    /// It cannot start in this run any more, and ends in this state.
    Never(StepState),
}

impl StepPlan {
    /// Reads a plan from its JSON form: a list of steps, or an object with `steps`. All errors are returned.
    pub fn read(plan: &Value) -> Result<Self, Vec<PlanFault>> {
        let mut faults = Vec::new();
        let (list, base) = match plan {
            Value::Array(list) => (list.as_slice(), ""),
            Value::Object(members) => match members.get("steps") {
                Some(Value::Array(list)) if members.len() == 1 => (list.as_slice(), "/steps"),
                _ => return Err(vec![fault("", "a plan must be a list of steps")]),
            },
            _ => return Err(vec![fault("", "a plan must be a list of steps")]),
        };
        if list.is_empty() || list.len() > MAX_STEPS {
            return Err(vec![fault(base, format!("a plan must have 1 to {MAX_STEPS} steps"))]);
        }
        if plan.to_string().len() > MAX_PLAN_BYTES {
            return Err(vec![fault(base, format!("a plan may have at most {MAX_PLAN_BYTES} bytes"))]);
        }
        let mut drafts = Vec::with_capacity(list.len());
        for (index, step) in list.iter().enumerate() {
            drafts.extend(read_step(step, index, &format!("{base}/{index}"), &mut faults));
        }
        check_ids(&drafts, &mut faults);
        let in_arguments = drafts.iter().flat_map(|draft| argument_names(&draft.references));
        let required_names: BTreeSet<String> = in_arguments.collect();
        let conditions = drafts.iter().filter_map(|draft| draft.step.when.as_ref()?.reference());
        let in_conditions = conditions.filter_map(|reference| reference.argument().map(str::to_owned));
        let argument_names = required_names.iter().cloned().chain(in_conditions).collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        match sorted(drafts) {
            Ok(steps) => Ok(Self { steps, argument_names, required_names, written: plan.clone() }),
            Err(cycle) => {
                let message = format!("these steps wait for each other: `{}`", cycle.join("` -> `"));
                Err(vec![fault(base, message)])
            }
        }
    }

    /// The steps.
    pub fn steps(&self) -> &[SkillStep] {
        &self.steps
    }

    /// The step with an id.
    pub fn step(&self, id: &str) -> Option<&SkillStep> {
        self.steps.iter().find(|step| step.id == id)
    }

    /// The names of the tools that it calls, as written, each once.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let names: BTreeSet<&str> = self.steps.iter().map(|step| step.tool.as_str()).collect();
        names.into_iter()
    }

    /// The names of the caller's arguments that it uses.
    pub fn argument_names(&self) -> &BTreeSet<String> {
        &self.argument_names
    }

    /// The names of the caller's arguments that its steps pass on, and not only their conditions.
    pub fn required_names(&self) -> &BTreeSet<String> {
        &self.required_names
    }

    /// Its steps as written, in the order in which they run, each with its id.
    pub fn in_order(&self) -> Value {
        let list = self.written.as_array().or_else(|| self.written.get("steps")?.as_array());
        let list = list.map(Vec::as_slice).unwrap_or_default();
        let mut steps: Vec<(usize, Value)> = Vec::with_capacity(list.len());
        for (index, step) in list.iter().enumerate() {
            let Value::Object(members) = step else { continue };
            let id =
                members.get("id").and_then(Value::as_str).map_or_else(|| default_id(index), str::to_owned);
            let place = self.steps.iter().position(|step| step.id == id).unwrap_or(index);
            let mut named = Map::from_iter([("id".to_owned(), Value::from(id))]);
            let others = members.iter().filter(|(key, _)| *key != "id");
            named.extend(others.map(|(key, value)| (key.clone(), value.clone())));
            steps.push((place, Value::Object(named)));
        }
        steps.sort_by_key(|(place, _)| *place);
        steps.into_iter().map(|(_, step)| step).collect()
    }

    /// Its JSON form.
    pub fn written(&self) -> &Value {
        &self.written
    }
}

impl SkillStep {
    /// Whether it can start, given the outcomes so far.
    pub fn readiness(&self, records: &StepRecords) -> Readiness {
        let mut readiness = Readiness::Ready;
        for before in &self.after {
            match records.get(before) {
                None => readiness = Readiness::NotYet,
                Some(record) if record.is_finished() => {}
                Some(record) => match record.state {
                    StepState::Held | StepState::Waiting => {
                        return Readiness::Never(StepState::Waiting);
                    }
                    _ => return Readiness::Never(StepState::Cancelled),
                },
            }
        }
        readiness
    }
}

/// A step before the checks that need all of them.
struct StepDraft {
    step: SkillStep,
    references: Vec<ValueReference>,
    pointer: String,
}

fn fault(pointer: &str, message: impl Into<String>) -> PlanFault {
    PlanFault { pointer: pointer.to_owned(), message: message.into() }
}

fn read_step(value: &Value, index: usize, pointer: &str, faults: &mut Vec<PlanFault>) -> Option<StepDraft> {
    let Value::Object(members) = value else {
        faults.push(fault(pointer, "a step must be an object"));
        return None;
    };
    for key in members.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        let shown: String = key.chars().take(64).collect();
        faults.push(fault(pointer, format!("a step has no key `{shown}`")));
    }
    let id = match members.get("id") {
        None | Some(Value::Null) => default_id(index),
        Some(Value::String(id)) if is_id(id) => id.clone(),
        Some(_) => {
            let rule = format!("an id must have 1 to {MAX_ID} letters, digits, `_` and `-`");
            faults.push(fault(&format!("{pointer}/id"), rule));
            return None;
        }
    };
    let tool = match members.get("tool").and_then(Value::as_str).map(str::trim) {
        Some(tool) if !tool.is_empty() && tool.len() <= MAX_TOOL_NAME => tool.to_owned(),
        _ => {
            faults.push(fault(pointer, format!("step `{id}` must name its `tool`")));
            return None;
        }
    };
    let mut after = Vec::new();
    for key in ["after", "depends_on"] {
        read_names(members.get(key), &format!("{pointer}/{key}"), &mut after, faults);
    }
    let (mut references, mut errors) = (Vec::new(), Vec::new());
    let key = if members.contains_key("inputs") { "inputs" } else { "arguments" };
    if members.contains_key("inputs") && members.contains_key("arguments") {
        faults.push(fault(pointer, format!("step `{id}`: give `arguments` or `inputs`, not both")));
    }
    let arguments = match members.get(key) {
        None | Some(Value::Null) => Map::new(),
        Some(written @ Value::Object(arguments)) => {
            references_in(written, &format!("{pointer}/{key}"), &mut references, &mut errors);
            arguments.clone()
        }
        Some(_) => {
            faults.push(fault(&format!("{pointer}/{key}"), format!("`{key}` must be an object")));
            Map::new()
        }
    };
    faults.extend(
        errors.into_iter().map(|(pointer, reason)| fault(&pointer, format!("step `{id}`: {reason}"))),
    );
    let when = members.get("when").filter(|when| !when.is_null());
    let when = when.and_then(|when| match Condition::read(when) {
        Ok(condition) => Some(condition),
        Err(reason) => {
            faults.push(fault(&format!("{pointer}/when"), format!("step `{id}`: {reason}")));
            None
        }
    });
    let timeout = match members.get("timeout").filter(|timeout| !timeout.is_null()) {
        None => None,
        Some(written) => {
            let seconds = written.as_f64().filter(|seconds| (0.001..=MAX_STEP_SECONDS).contains(seconds));
            if seconds.is_none() {
                let rule = format!("`timeout` must be a number of seconds up to {MAX_STEP_SECONDS}");
                faults.push(fault(&format!("{pointer}/timeout"), rule));
            }
            seconds.map(Duration::from_secs_f64)
        }
    };
    let description = members.get("description").and_then(Value::as_str).map(str::to_owned);
    let step = SkillStep { id, tool, after, arguments, when, timeout, description };
    Some(StepDraft { step, references, pointer: pointer.to_owned() })
}

/// The id of a step that has none.
fn default_id(index: usize) -> String {
    format!("step{}", index + 1)
}

fn is_id(id: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !id.is_empty() && id.len() <= MAX_ID && id.chars().all(is_legal)
}

/// Reads a list of ids; one id may be written as a string.
fn read_names(written: Option<&Value>, pointer: &str, names: &mut Vec<String>, faults: &mut Vec<PlanFault>) {
    let list = match written {
        None | Some(Value::Null) => return,
        Some(Value::String(one)) => vec![Some(one.clone())],
        Some(Value::Array(list)) => list.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        Some(_) => vec![None],
    };
    for name in list {
        match name {
            Some(name) if !names.contains(&name) => names.push(name),
            Some(_) => {}
            None => faults.push(fault(pointer, "this must be a list of the ids of steps")),
        }
    }
}

/// Checks that ids are unique, and that every step that is named exists.
fn check_ids(drafts: &[StepDraft], faults: &mut Vec<PlanFault>) {
    let mut ids = BTreeSet::new();
    for draft in drafts {
        if !ids.insert(draft.step.id.as_str()) {
            faults.push(fault(&draft.pointer, format!("two steps have the id `{}`", draft.step.id)));
        }
    }
    for StepDraft { step, references, pointer } in drafts {
        for before in step.after.iter().filter(|before| !ids.contains(before.as_str())) {
            let shown: String = before.chars().take(MAX_ID).collect();
            faults.push(fault(pointer, format!("step `{}` comes after the unknown step `{shown}`", step.id)));
        }
        let condition = step.when.as_ref().and_then(Condition::reference);
        for reference in references.iter().chain(condition) {
            if let ValueSource::Step(id) = &reference.source
                && !ids.contains(id.as_str())
            {
                faults.push(fault(pointer, format!("step `{}` refers to the unknown step `{id}`", step.id)));
            }
        }
    }
}

/// The steps in an order in which each comes after those that it depends on, otherwise as written; or a cycle.
fn sorted(drafts: Vec<StepDraft>) -> Result<Vec<SkillStep>, Vec<String>> {
    let mut waiting: Vec<SkillStep> = Vec::with_capacity(drafts.len());
    for StepDraft { mut step, references, .. } in drafts {
        let condition = step.when.as_ref().and_then(Condition::reference).cloned();
        for reference in references.into_iter().chain(condition) {
            if let ValueSource::Step(id) = reference.source
                && !step.after.contains(&id)
            {
                step.after.push(id);
            }
        }
        waiting.push(step);
    }
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut steps = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let is_free = |step: &SkillStep| step.after.iter().all(|before| done.contains(before));
        let Some(next) = waiting.iter().position(is_free) else { return Err(cycle_in(&waiting)) };
        let step = waiting.remove(next);
        done.insert(step.id.clone());
        steps.push(step);
    }
    Ok(steps)
}

/// The ids of a cycle; each of these steps waits for another one of them.
fn cycle_in(waiting: &[SkillStep]) -> Vec<String> {
    let by_id: BTreeMap<&str, &SkillStep> = waiting.iter().map(|step| (step.id.as_str(), step)).collect();
    let mut path: Vec<&str> = Vec::new();
    let mut at = waiting.first();
    while let Some(step) = at {
        if let Some(start) = path.iter().position(|id| *id == step.id) {
            let mut cycle: Vec<String> = path[start..].iter().map(|id| (*id).to_owned()).collect();
            cycle.push(step.id.clone());
            return cycle;
        }
        path.push(&step.id);
        at = step.after.iter().find_map(|before| by_id.get(before.as_str()).copied());
    }
    path.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::super::record::StepRecord;
    use super::*;
    use serde_json::json;

    fn faults(plan: &Value) -> Vec<String> {
        let faults = StepPlan::read(plan).expect_err("not a plan");
        faults.into_iter().map(|fault| format!("{}: {}", fault.pointer, fault.message)).collect()
    }

    #[test]
    fn steps_are_sorted_by_their_dependencies() {
        let plan = StepPlan::read(&json!([
            { "id": "send", "tool": "mail", "arguments": { "text": "${steps.sum.results.text}" } },
            { "id": "sum", "tool": "summarise", "after": "fetch" },
            { "id": "fetch", "tool": "get", "inputs": { "url": "${arguments.url}" } },
            { "tool": "log", "depends_on": ["fetch"], "when": "${arguments.loud}" },
        ]));
        let plan = plan.expect("a plan");
        let order: Vec<&str> = plan.steps().iter().map(|step| step.id.as_str()).collect();
        assert_eq!(order, ["fetch", "sum", "send", "step4"]);
        let shown = plan.in_order();
        let shown: Vec<&str> =
            shown.as_array().into_iter().flatten().filter_map(|step| step["id"].as_str()).collect();
        assert_eq!(shown, order);
        assert_eq!(plan.step("send").map(|step| step.after.clone()), Some(vec!["sum".to_owned()]));
        assert_eq!(plan.argument_names().iter().collect::<Vec<_>>(), ["loud", "url"]);
        assert_eq!(plan.tools().collect::<Vec<_>>(), ["get", "log", "mail", "summarise"]);
    }

    #[test]
    fn every_error_of_a_plan_is_reported_with_its_place() {
        let plan = json!([
            { "id": "a", "tool": "t", "after": ["gone"], "arguments": { "x": "${steps.b.output}" } },
            { "id": "a", "tool": "t", "when": "sometimes" },
            { "id": "c d", "tool": "t" },
            { "id": "e" },
            { "id": "f", "tool": "t", "arguments": { "x": "${steps.nowhere.results}" }, "retries": 3 },
        ]);
        assert_eq!(
            faults(&plan),
            [
                "/0/arguments/x: step `a`: `${steps.b.output}` must be `${steps.ID.results...}`",
                "/1/when: step `a`: `when` must begin with a reference, such as `${steps.ID.results.ok}`",
                "/2/id: an id must have 1 to 64 letters, digits, `_` and `-`",
                "/3: step `e` must name its `tool`",
                "/4: a step has no key `retries`",
                "/1: two steps have the id `a`",
                "/0: step `a` comes after the unknown step `gone`",
                "/4: step `f` refers to the unknown step `nowhere`",
            ]
        );
        assert_eq!(faults(&json!([])), [": a plan must have 1 to 100 steps"]);
        assert_eq!(faults(&json!("x")), [": a plan must be a list of steps"]);
    }

    #[test]
    fn a_cycle_is_named() {
        let plan = json!({ "steps": [
            { "id": "start", "tool": "t" },
            { "id": "a", "tool": "t", "after": ["start", "c"] },
            { "id": "b", "tool": "t", "arguments": { "x": "${steps.a.results}" } },
            { "id": "c", "tool": "t", "after": ["b"] },
        ] });
        assert_eq!(faults(&plan), ["/steps: these steps wait for each other: `a` -> `c` -> `b` -> `a`"]);
        let own = json!([{ "id": "a", "tool": "t", "arguments": { "x": "${steps.a.results}" } }]);
        assert_eq!(faults(&own), [": these steps wait for each other: `a` -> `a`"]);
    }

    #[test]
    fn a_step_is_ready_when_all_before_it_are_finished() {
        let plan = StepPlan::read(&json!([
            { "id": "a", "tool": "t" },
            { "id": "b", "tool": "t" },
            { "id": "c", "tool": "t", "after": ["a", "b"] },
        ]));
        let plan = plan.expect("a plan");
        let last = plan.step("c").expect("a step");
        let mut records = StepRecords::new();
        let mut set = |id: &str, state: StepState, expected: Readiness| {
            records.insert(id.to_owned(), StepRecord::of_state(state));
            assert_eq!(last.readiness(&records), expected, "{id} {state:?}");
        };
        set("a", StepState::Succeeded, Readiness::NotYet);
        set("b", StepState::Skipped, Readiness::Ready);
        set("b", StepState::Held, Readiness::Never(StepState::Waiting));
        set("a", StepState::Failed, Readiness::Never(StepState::Cancelled));
    }
}
