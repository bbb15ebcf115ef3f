//! What a job needs, and whether it is there now.

use super::{Jobs, KnownJob, TaskFinder};
use std::collections::BTreeSet;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Lookup;
use toolbooth_core::fault::Problem;
use toolbooth_core::job::TaskDefinition;
use toolbooth_core::skill::StepPlan;

/// The number of calls from which a tool's success rate counts.
const MIN_CALLS: u32 = 3;
/// The success rate below which a tool is unhealthy.
const UNHEALTHY: f64 = 0.5;

/// What a job needs, and whether it is there now.
#[derive(Debug, Clone, Default)]
pub struct JobReadiness {
    /// The capabilities of its tools and skills: canonical tags, sorted.
    pub capabilities: BTreeSet<String>,
    /// Why it cannot run now; none if it can.
    pub reasons: Vec<String>,
}

impl Jobs {
    /// Checks for a caller what a job needs. A tool that the caller may not use looks missing.
    pub async fn readiness(
        &self,
        caller: &Caller,
        job: &KnownJob,
        tasks: &mut TaskFinder<'_>,
    ) -> Result<JobReadiness, Problem> {
        let definition = &job.definition;
        let mut tools: BTreeSet<String> = definition.required_tools.iter().cloned().collect();
        let mut skills: BTreeSet<String> = definition.required_skills.iter().cloned().collect();
        let mut found = JobReadiness::default();
        if let Some(plan) = definition.plan.as_ref().and_then(|plan| StepPlan::read(plan).ok()) {
            tools.extend(plan.tools().map(str::to_owned));
        }
        for node in &definition.task_graph {
            match tasks.definition(&node.task).await? {
                Some(TaskDefinition { required_skills, required_tools, .. }) => {
                    skills.extend(required_skills.iter().cloned());
                    tools.extend(required_tools.iter().cloned());
                }
                None => found.reasons.push(format!("there is no task `{}`", node.task)),
            }
        }
        for name in skills {
            match self.skills.find(&name, caller) {
                Some(skill) => {
                    found.capabilities.extend(skill.required_capabilities.iter().cloned());
                    found.capabilities.extend(skill.capability_tags.iter().cloned());
                    tools.extend(skill.required_tools.iter().cloned());
                }
                None => found.reasons.push(format!("there is no skill `{name}`")),
            }
        }
        let catalog = self.catalog.load();
        for name in tools {
            match catalog.tool(&name, caller) {
                Lookup::Found(tool) => {
                    found.capabilities.extend(tool.terms.capabilities.iter().cloned());
                    if let Some((calls, rate)) = self.health.record_of(tool)
                        && calls >= MIN_CALLS
                        && rate < UNHEALTHY
                    {
                        let percent = (rate * 100.0).round();
                        found.reasons.push(format!(
                            "tool `{name}` is unhealthy: {percent} % of {calls} calls succeeded"
                        ));
                    }
                }
                Lookup::Ambiguous(_) => found.reasons.push(format!("`{name}` names several tools")),
                Lookup::Unknown => found.reasons.push(format!("there is no tool `{name}`")),
            }
        }
        Ok(found)
    }
}
