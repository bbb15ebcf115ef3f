//! Turns the definition of a job into the parts of a run: its own plan, or the plans of its tasks in order.

use super::Jobs;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{GraphNode, JobDefinition, JobFault, RunPart, in_order};
use toolbooth_core::skill::StepPlan;

/// The id of the part that is the job's own plan, or that of a skill.
pub(super) const OWN_PLAN: &str = "plan";

impl Jobs {
    /// The parts of a run. A task that is missing is the error, before anything runs.
    pub(super) async fn parts_of(
        &self,
        definition: &JobDefinition,
        arguments: &Map<String, Value>,
        caller: &Caller,
    ) -> Result<Vec<RunPart>, Problem> {
        if let Some(plan) = &definition.plan {
            return Ok(vec![RunPart::new(
                OWN_PLAN.to_owned(),
                Vec::new(),
                Some(plan.clone()),
                arguments.clone(),
            )]);
        }
        let mut tasks = self.task_finder(caller);
        let order = in_order(&definition.task_graph).unwrap_or_default();
        let mut parts: Vec<RunPart> = Vec::new();
        // The last part of each task, which later tasks wait for.
        let mut ends: BTreeMap<&str, String> = BTreeMap::new();
        let mut reasons = Vec::new();
        for node in order {
            let Some(task) = tasks.definition(&node.task).await? else {
                reasons.push(format!("there is no task `{}`", node.task));
                continue;
            };
            let after: Vec<String> =
                node.depends_on.iter().filter_map(|name| ends.get(name.as_str()).cloned()).collect();
            let arguments = node_arguments(arguments, node);
            let policy = task.escalation_policy.clone();
            let mut plans: Vec<(String, Value)> = Vec::new();
            match &task.plan {
                Some(plan) => plans.push((node.task.clone(), plan.clone())),
                None => {
                    for name in &task.required_skills {
                        let Some(skill) = self.skills.find(name, caller) else {
                            reasons.push(format!(
                                "there is no skill `{name}`, which task `{}` needs",
                                node.task
                            ));
                            continue;
                        };
                        if let Some(plan) = &skill.plan {
                            plans.push((format!("{}/{name}", node.task), plan.written().clone()));
                        }
                    }
                }
            }
            if let [(id, _)] = plans.as_mut_slice() {
                id.clone_from(&node.task);
            }
            let mut before = after;
            if plans.is_empty() {
                let part = RunPart::new(node.task.clone(), before, None, arguments);
                parts.push(part.with_policy(&policy));
                ends.insert(&node.task, node.task.clone());
                continue;
            }
            for (id, plan) in plans {
                ends.insert(&node.task, id.clone());
                let part = RunPart::new(id.clone(), before, Some(plan), arguments.clone());
                parts.push(part.with_policy(&policy));
                before = vec![id];
            }
        }
        match reasons.is_empty() {
            true => Ok(parts),
            false => {
                let name = definition.name.clone();
                Err(Problem::of(&JobFault::NotReady { name, reasons }))
            }
        }
    }

    /// The errors of the plans of a run for its owner: missing tools, and arguments that no one gave.
    pub(super) fn plan_faults(&self, parts: &[RunPart], caller: &Caller) -> Vec<String> {
        let mut faults = Vec::new();
        for part in parts {
            let Some(plan) = part.plan.as_ref().and_then(|plan| StepPlan::read(plan).ok()) else { continue };
            faults.extend(self.skills.check_plan(&plan, caller).into_iter().map(|problem| problem.message));
        }
        faults
    }
}

/// The arguments of the run, over which those of the task take precedence.
fn node_arguments(arguments: &Map<String, Value>, node: &GraphNode) -> Map<String, Value> {
    let mut merged = arguments.clone();
    if let Some(Value::Object(own)) = node.metadata.get("arguments") {
        merged.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    merged
}
