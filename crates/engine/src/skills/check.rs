//! Checks of skills for a caller: whether the tools and capabilities that they need are there.

use super::Skills;
use std::collections::BTreeSet;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Catalog, Lookup};
use toolbooth_core::fault::Problem;
use toolbooth_core::own_names::CALL;
use toolbooth_core::skill::{Skill, SkillFault, SkillStep, StepPlan};

/// What a skill lacks for a caller.
#[derive(Debug, Clone, Default)]
pub struct SkillCheck {
    /// The errors; none if the skill can be used.
    pub problems: Vec<Problem>,
    /// Required tools and tools of steps that the caller does not have.
    pub missing_tools: Vec<String>,
    /// Required capabilities that no tool of the caller has.
    pub missing_capabilities: Vec<String>,
}

impl Skills {
    /// Checks a skill for a caller. Nothing is run.
    pub fn check(&self, skill: &Skill, caller: &Caller) -> SkillCheck {
        let catalog = self.catalog.load();
        let mut check = SkillCheck::default();
        for tool in &skill.required_tools {
            if matches!(catalog.tool(tool, caller), Lookup::Unknown) {
                check.problems.push(Problem::of(&SkillFault::NoRequiredTool { tool: tool.clone() }));
                check.missing_tools.push(tool.clone());
            }
        }
        if !skill.required_capabilities.is_empty() {
            let have: BTreeSet<&str> =
                catalog.tools(caller).flat_map(|tool| &tool.terms.capabilities).map(String::as_str).collect();
            for capability in skill.required_capabilities.iter().filter(|one| !have.contains(one.as_str())) {
                let fault = SkillFault::NoCapability { capability: capability.clone() };
                check.problems.push(Problem::of(&fault));
                check.missing_capabilities.push(capability.clone());
            }
        }
        for step in skill.plan.iter().flat_map(|plan| plan.steps()) {
            if let Err(fault) = check_step(&catalog, step, caller) {
                if let SkillFault::NoTool { tool, .. } = &fault
                    && !check.missing_tools.contains(tool)
                {
                    check.missing_tools.push(tool.clone());
                }
                check.problems.push(Problem::of(&fault));
            }
        }
        check
    }

    /// All errors of a plan for a caller, without running anything.
    pub fn check_plan(&self, plan: &StepPlan, caller: &Caller) -> Vec<Problem> {
        let catalog = self.catalog.load();
        let faults = plan.steps().iter().filter_map(|step| check_step(&catalog, step, caller).err());
        faults.map(|fault| Problem::of(&fault)).collect()
    }
}

/// Checks that the caller may use the tool of a step. A tool that the caller may not use looks unknown.
fn check_step(catalog: &Catalog, step: &SkillStep, caller: &Caller) -> Result<(), SkillFault> {
    let (id, tool) = (step.id.clone(), step.tool.clone());
    match catalog.tool(&step.tool, caller) {
        // A skill that ran another one, or itself, would escape the limits of both.
        Lookup::Found(found)
            if found.skill().is_some() || (found.server.is_own() && *found.name == *CALL) =>
        {
            Err(SkillFault::NestedSkill { step: id, tool })
        }
        Lookup::Found(_) => Ok(()),
        Lookup::Unknown => Err(SkillFault::NoTool { step: id, tool }),
        Lookup::Ambiguous(tools) => {
            let mut candidates: Vec<String> = tools.iter().map(|tool| tool.exposed.to_string()).collect();
            candidates.sort();
            Err(SkillFault::AmbiguousTool { step: id, tool, candidates })
        }
    }
}
