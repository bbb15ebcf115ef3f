//! Definitions of jobs and tasks, as manifests and requests write them.

use super::criteria::{Criterion, read_criteria};
use super::escalation::EscalationPolicy;
use super::fields::{DefinitionFault, DefinitionFields, DefinitionSource, FaultList, MAX_LIST, read_name};
use super::recurrence::Recurrence;
use crate::skill::StepPlan;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The persona in a job's list that stands for every caller.
pub const ANY_PERSONA: &str = "*";
/// The maximum size of the metadata of a node, as JSON.
const MAX_METADATA_BYTES: usize = 64 * 1024;

/// The definition of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobDefinition {
    /// Its name.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The personas that may see and schedule it; `*` stands for every caller.
    pub personas: Vec<String>,
    /// Skills that it needs.
    #[serde(default)]
    pub required_skills: Vec<String>,
    /// Tools that it needs.
    #[serde(default)]
    pub required_tools: Vec<String>,
    /// Its tasks, if it has no plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_graph: Vec<GraphNode>,
    /// Its steps, if it has no tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// When it is due; without one it runs only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurrence: Option<Recurrence>,
    /// When a run is good.
    #[serde(default)]
    pub acceptance_criteria: Vec<Criterion>,
    /// What happens if a run is not.
    #[serde(default)]
    pub escalation_policy: EscalationPolicy,
    /// The job whose fields it inherits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    /// Whether a signed request of another system may start it.
    #[serde(default)]
    pub accepts_external_requests: bool,
}

/// A task in the graph of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// The name of the task.
    pub task: String,
    /// Tasks of the graph that must be done before.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// What it is for, in this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Free data; the arguments of the task's steps are in `arguments`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The definition of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskDefinition {
    /// Its name.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The persona it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Skills that it needs. A job runs those that have a plan.
    #[serde(default)]
    pub required_skills: Vec<String>,
    /// Tools that it needs.
    #[serde(default)]
    pub required_tools: Vec<String>,
    /// Its steps, which a job runs; without them, those of its skills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// Tasks that must be done or cancelled before it advances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// When it is done well.
    #[serde(default)]
    pub acceptance_criteria: Vec<Criterion>,
    /// What happens if it is not.
    #[serde(default)]
    pub escalation_policy: EscalationPolicy,
    /// The task whose fields it inherits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    /// Tags for searches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
}

/// A definition that was read, and its faults. With an error there is no definition.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadDefinition<T> {
    /// The definition, if it has no error.
    pub definition: Option<T>,
    /// All faults.
    pub faults: Vec<DefinitionFault>,
}

fn finish<T>(definition: Option<T>, faults: FaultList) -> ReadDefinition<T> {
    let has_error = faults.0.iter().any(|fault| !fault.is_unknown_field);
    ReadDefinition { definition: definition.filter(|_| !has_error), faults: faults.0 }
}

/// The fields that jobs and tasks share.
struct CommonFields {
    name: Option<String>,
    summary: Option<String>,
    description: Option<String>,
    required_skills: Vec<String>,
    required_tools: Vec<String>,
    plan: Option<Value>,
    acceptance_criteria: Vec<Criterion>,
    escalation_policy: EscalationPolicy,
    extends: Option<String>,
}

fn read_common(
    faults: &mut FaultList,
    fields: &DefinitionFields<'_>,
    source: DefinitionSource,
) -> CommonFields {
    let strict = source == DefinitionSource::Manifest;
    let name = read_name(faults, fields);
    let required = |faults: &mut FaultList, key: &str| {
        if strict && fields.member(key).is_none() {
            faults.missing(fields, key);
        }
        faults.texts(fields, key).unwrap_or_default()
    };
    let required_skills = required(faults, "required_skills");
    let required_tools = required(faults, "required_tools");
    let summary = faults.long(fields, "summary");
    if strict && fields.member("summary").is_none() {
        faults.missing(fields, "summary");
    }
    let acceptance_criteria = match fields.member("acceptance_criteria") {
        Some((value, pointer)) => read_criteria(faults, value, &pointer),
        None => {
            if strict {
                faults.missing(fields, "acceptance_criteria");
            }
            Vec::new()
        }
    };
    let escalation_policy = match fields.member("escalation_policy") {
        Some((value, pointer)) => EscalationPolicy::read(faults, value, pointer),
        None => {
            if strict {
                faults.missing(fields, "escalation_policy");
            }
            None
        }
    };
    let plan = fields.member("plan").map(|(value, pointer)| {
        if let Err(wrong) = StepPlan::read(value) {
            for fault in wrong {
                faults.add(format!("{pointer}{}", fault.pointer), fault.message);
            }
        }
        value.clone()
    });
    CommonFields {
        summary: summary.or_else(|| name.clone()),
        name,
        description: faults.long(fields, "description"),
        required_skills,
        required_tools,
        plan,
        acceptance_criteria,
        escalation_policy: escalation_policy.unwrap_or_default(),
        extends: faults.short(fields, "extends"),
    }
}

impl JobDefinition {
    /// Reads a definition, and reports all of its faults.
    pub fn read(value: &Value, source: DefinitionSource) -> ReadDefinition<Self> {
        const KNOWN: [&str; 13] = [
            "name",
            "summary",
            "description",
            "personas",
            "required_skills",
            "required_tools",
            "task_graph",
            "plan",
            "recurrence",
            "acceptance_criteria",
            "escalation_policy",
            "extends",
            "accepts_external_requests",
        ];
        let mut faults = FaultList::default();
        let Some(fields) = faults.fields(value, String::new(), &KNOWN) else { return finish(None, faults) };
        let common = read_common(&mut faults, &fields, source);
        let personas = faults.texts(&fields, "personas").unwrap_or_default();
        if personas.is_empty() && source == DefinitionSource::Manifest {
            faults.add("/personas", "`personas` must name at least one persona; `*` stands for every caller");
        }
        let task_graph = match fields.member("task_graph") {
            Some((value, pointer)) => read_graph(&mut faults, value, &pointer),
            None => Vec::new(),
        };
        match (task_graph.is_empty(), &common.plan) {
            (true, None) => faults.add("", "give `task_graph` with at least one task, or `plan`"),
            (false, Some(_)) => faults.add("/plan", "give `task_graph` or `plan`, not both"),
            _ => {}
        }
        let recurrence = fields
            .member("recurrence")
            .and_then(|(value, pointer)| Recurrence::read(&mut faults, value, pointer));
        let accepts_external_requests = faults.flag(&fields, "accepts_external_requests").unwrap_or_default();
        let (Some(name), Some(summary)) = (common.name, common.summary) else { return finish(None, faults) };
        let definition = Self {
            name,
            summary,
            description: common.description,
            personas,
            required_skills: common.required_skills,
            required_tools: common.required_tools,
            task_graph,
            plan: common.plan,
            recurrence,
            acceptance_criteria: common.acceptance_criteria,
            escalation_policy: common.escalation_policy,
            extends: common.extends,
            accepts_external_requests,
        };
        finish(Some(definition), faults)
    }

    /// Whether a persona is in the job's list. Names compare without case.
    pub fn is_for_persona(&self, persona: Option<&str>) -> bool {
        self.personas.iter().any(|known| {
            known == ANY_PERSONA
                || persona.is_some_and(|persona| crate::persona::is_same_name(known, persona))
        })
    }
}

impl TaskDefinition {
    /// Reads a definition, and reports all of its faults.
    pub fn read(value: &Value, source: DefinitionSource) -> ReadDefinition<Self> {
        const KNOWN: [&str; 13] = [
            "name",
            "summary",
            "description",
            "persona",
            "required_skills",
            "required_tools",
            "plan",
            "depends_on",
            "acceptance_criteria",
            "escalation_policy",
            "extends",
            "tags",
            "priority",
        ];
        let mut faults = FaultList::default();
        let Some(fields) = faults.fields(value, String::new(), &KNOWN) else { return finish(None, faults) };
        let common = read_common(&mut faults, &fields, source);
        if source == DefinitionSource::Manifest
            && common.acceptance_criteria.is_empty()
            && fields.member("acceptance_criteria").is_some()
        {
            faults.add("/acceptance_criteria", "`acceptance_criteria` must have at least one criterion");
        }
        let (persona, priority) = (faults.short(&fields, "persona"), faults.short(&fields, "priority"));
        let depends_on = faults.texts(&fields, "depends_on").unwrap_or_default();
        let tags = faults.texts(&fields, "tags").unwrap_or_default();
        let (Some(name), Some(summary)) = (common.name, common.summary) else { return finish(None, faults) };
        if depends_on.contains(&name) {
            faults.add("/depends_on", "a task cannot depend on itself");
        }
        let definition = Self {
            name,
            summary,
            description: common.description,
            persona,
            required_skills: common.required_skills,
            required_tools: common.required_tools,
            plan: common.plan,
            depends_on,
            acceptance_criteria: common.acceptance_criteria,
            escalation_policy: common.escalation_policy,
            extends: common.extends,
            tags,
            priority,
        };
        finish(Some(definition), faults)
    }
}

fn read_graph(faults: &mut FaultList, value: &Value, pointer: &str) -> Vec<GraphNode> {
    const KNOWN: [&str; 4] = ["task", "depends_on", "description", "metadata"];
    let Some(list) = value.as_array().filter(|list| list.len() <= MAX_LIST) else {
        faults.add(pointer, format!("`task_graph` must be a list of at most {MAX_LIST} tasks"));
        return Vec::new();
    };
    let mut nodes: Vec<GraphNode> = Vec::new();
    for (index, element) in list.iter().enumerate() {
        let place = format!("{pointer}/{index}");
        let Some(fields) = faults.fields(element, place.clone(), &KNOWN) else { continue };
        let Some(task) = faults.short(&fields, "task") else {
            if fields.member("task").is_none() {
                faults.missing(&fields, "task");
            }
            continue;
        };
        if nodes.iter().any(|node| node.task == task) {
            faults.add(format!("{place}/task"), format!("task `{task}` is in the graph twice"));
            continue;
        }
        let metadata = match fields.member("metadata") {
            None => Map::new(),
            Some((Value::Object(members), place)) => {
                if serde_json::to_string(members).map_or(0, |text| text.len()) > MAX_METADATA_BYTES {
                    faults.add(place.clone(), format!("`metadata` has more than {MAX_METADATA_BYTES} bytes"));
                }
                if members.get("arguments").is_some_and(|arguments| !arguments.is_object()) {
                    faults.add(format!("{place}/arguments"), "`arguments` must be an object");
                }
                members.clone()
            }
            Some((_, place)) => {
                faults.add(place, "`metadata` must be an object");
                Map::new()
            }
        };
        nodes.push(GraphNode {
            task,
            depends_on: faults.texts(&fields, "depends_on").unwrap_or_default(),
            description: faults.long(&fields, "description"),
            metadata,
        });
    }
    check_graph(faults, &nodes, pointer);
    nodes
}

fn check_graph(faults: &mut FaultList, nodes: &[GraphNode], pointer: &str) {
    let names: BTreeSet<&str> = nodes.iter().map(|node| node.task.as_str()).collect();
    for (index, node) in nodes.iter().enumerate() {
        for missing in node.depends_on.iter().filter(|name| !names.contains(name.as_str())) {
            let place = format!("{pointer}/{index}/depends_on");
            faults.add(
                place,
                format!("task `{}` depends on `{missing}`, which is not in the graph", node.task),
            );
        }
    }
    if let Err(name) = in_order(nodes) {
        faults.add(pointer, format!("the tasks depend on each other in a circle: `{name}`"));
    }
}

/// The nodes in an order in which each comes after its dependencies; a name of a circle if there is one. Unknown
/// dependencies are ignored.
pub fn in_order(nodes: &[GraphNode]) -> Result<Vec<&GraphNode>, &str> {
    let known: BTreeMap<&str, &GraphNode> = nodes.iter().map(|node| (node.task.as_str(), node)).collect();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut ordered: Vec<&GraphNode> = Vec::with_capacity(nodes.len());
    while ordered.len() < known.len() {
        let is_ready = |node: &&GraphNode| {
            !done.contains(node.task.as_str())
                && node
                    .depends_on
                    .iter()
                    .all(|name| !known.contains_key(name.as_str()) || done.contains(name.as_str()))
        };
        match nodes.iter().find(is_ready) {
            Some(node) => {
                done.insert(&node.task);
                ordered.push(node);
            }
            None => {
                let left = nodes.iter().find(|node| !done.contains(node.task.as_str()));
                return Err(left.map_or("", |node| node.task.as_str()));
            }
        }
    }
    Ok(ordered)
}

/// An entry with the fields of its base: each field that the entry has replaces that of the base.
pub fn extended(base: &Map<String, Value>, entry: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = base.clone();
    for (key, value) in entry {
        merged.insert(key.clone(), value.clone());
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job() -> Value {
        json!({
            "name": "Daily", "summary": "s", "personas": ["Atlas"], "required_skills": [], "required_tools": ["a"],
            "task_graph": [{ "task": "second", "depends_on": ["first"] }, { "task": "first" }],
            "recurrence": { "cron": "0 7 * * 1-5", "timezone": "Europe/Berlin" },
            "acceptance_criteria": ["It is there."],
            "escalation_policy": { "level": "editor", "contact": "e@example.org", "timeframe": "2h" }
        })
    }

    #[test]
    fn a_job_is_read_and_its_tasks_are_ordered() {
        let read = JobDefinition::read(&job(), DefinitionSource::Manifest);
        assert_eq!(read.faults, []);
        let job = read.definition.expect("valid");
        let order = in_order(&job.task_graph).expect("no circle");
        assert_eq!(order.iter().map(|node| node.task.as_str()).collect::<Vec<_>>(), ["first", "second"]);
        assert!(job.is_for_persona(Some("atlas")) && !job.is_for_persona(Some("Scribe")));
        assert!(!job.is_for_persona(None));
        let again: JobDefinition =
            serde_json::from_value(serde_json::to_value(&job).expect("JSON")).expect("a job");
        assert_eq!(again, job);
    }

    #[test]
    fn every_fault_is_named_with_its_place() {
        let cases = [
            (json!({ "name": null }), "", "`name` is missing"),
            (json!({ "personas": [] }), "/personas", "at least one persona"),
            (json!({ "task_graph": [] }), "", "give `task_graph`"),
            (
                json!({ "task_graph": [{ "task": "a", "depends_on": ["b"] }] }),
                "/task_graph/0/depends_on",
                "not in the graph",
            ),
            (
                json!({ "task_graph": [{ "task": "a", "depends_on": ["b"] }, { "task": "b", "depends_on": ["a"] }] }),
                "/task_graph",
                "circle",
            ),
            (json!({ "recurrence": { "cron": "x" } }), "/recurrence/cron", "not a cron pattern"),
            (
                json!({ "recurrence": { "cron": "0 7 * * *", "interval": 2 } }),
                "/recurrence/interval",
                "steps of `frequency`",
            ),
            (json!({ "acceptance_criteria": [""] }), "/acceptance_criteria/0", "must not be empty"),
            (json!({ "required_tools": "a" }), "/required_tools", "must be a list"),
        ];
        for (change, pointer, words) in cases {
            let (Value::Object(base), Value::Object(entry)) = (job(), change.clone()) else {
                panic!("objects")
            };
            let read =
                JobDefinition::read(&Value::Object(extended(&base, &entry)), DefinitionSource::Manifest);
            let fits = |fault: &DefinitionFault| fault.pointer == pointer && fault.message.contains(words);
            assert!(read.faults.iter().any(fits), "{change}: {:?}", read.faults);
            assert_eq!(read.definition, None, "{change}");
        }
    }

    #[test]
    fn requests_may_leave_out_what_can_be_derived() {
        let body = json!({ "name": "quick", "plan": [{ "id": "one", "tool": "x" }] });
        let read = JobDefinition::read(&body, DefinitionSource::Request);
        assert_eq!(read.faults, []);
        assert_eq!(read.definition.expect("valid").summary, "quick");
    }

    #[test]
    fn a_task_needs_a_criterion() {
        let mut task = json!({
            "name": "Collect", "summary": "s", "required_skills": [], "required_tools": [],
            "acceptance_criteria": ["Three pages."], "escalation_policy": {}, "priority": "high", "tags": ["x"]
        });
        assert!(TaskDefinition::read(&task, DefinitionSource::Manifest).definition.is_some());
        task["acceptance_criteria"] = json!([]);
        assert!(TaskDefinition::read(&task, DefinitionSource::Manifest).definition.is_none());
    }
}
