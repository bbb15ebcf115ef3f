//! The skills of a catalog, and the part of the catalog that only search reads.

use super::admission::ServerCatalog;
use super::assembly::virtual_part;
use super::tool::Backing;
use super::virtual_tool::{VirtualToolInput, build};
use crate::manifest::Manifest;
use crate::names::ServerName;
use crate::server::{ServerEntry, Transport};
use crate::skill::Skill;
use std::sync::Arc;

/// The name of the part that contains the skills without a plan. It is not in the list of servers.
const SEARCH_ONLY: &str = "_skills";

/// The skills of a catalog.
#[derive(Debug, Default)]
pub struct SkillSet {
    all: Vec<Arc<Skill>>,
    searchable: Option<Arc<ServerCatalog>>,
}

impl SkillSet {
    /// A set of these skills.
    pub fn new(mut all: Vec<Arc<Skill>>) -> Self {
        // A persona's own skill comes before the shared one, which it shadows.
        all.sort_by(|one, other| {
            let key = |skill: &Skill| (skill.name.clone(), skill.persona.is_none(), skill.persona.clone());
            key(one).cmp(&key(other))
        });
        let searchable = searchable(&all);
        Self { all, searchable }
    }

    /// All skills, sorted by name, without permission checks.
    pub fn all(&self) -> &[Arc<Skill>] {
        &self.all
    }

    /// The manifest entries of the skills that are tools.
    pub fn tools(&self) -> Vec<Manifest> {
        self.all.iter().filter(|skill| skill.plan.is_some()).map(Manifest::of_skill).collect()
    }

    /// The skills without a plan in the form of tools, for the search index. They cannot be called or listed.
    pub fn searchable(&self) -> Option<&Arc<ServerCatalog>> {
        self.searchable.as_ref()
    }
}

fn searchable(all: &[Arc<Skill>]) -> Option<Arc<ServerCatalog>> {
    let name: ServerName = SEARCH_ONLY.parse().ok()?;
    let server = Arc::new(ServerEntry::with_defaults(name, Transport::Virtual));
    let mut tools = Vec::new();
    for skill in all.iter().filter(|skill| skill.plan.is_none()) {
        let entry = Manifest { name: skill.name.clone(), ..Manifest::of_skill(skill) };
        let made = build(VirtualToolInput {
            server: &server,
            entries: &[&entry],
            exposed: &skill.name,
            backing: &|_| vec![Backing::Open],
            shadowed_for: Vec::new(),
        });
        tools.extend(made.ok().map(|(tool, _)| Arc::new(tool)));
    }
    (!tools.is_empty()).then(|| Arc::new(virtual_part(server, tools, Vec::new())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::StepPlan;
    use serde_json::json;

    #[test]
    fn a_skill_is_a_tool_if_it_has_a_plan_and_only_found_otherwise() {
        let plan = StepPlan::read(&json!([{ "id": "a", "tool": "t" }])).expect("a plan");
        let plain = Arc::new(crate::skill::tests::skill("notes"));
        let own = Arc::new(Skill { persona: Some("Dev".into()), ..crate::skill::tests::skill("brief") });
        let planned = Arc::new(Skill { plan: Some(Arc::new(plan)), ..crate::skill::tests::skill("brief") });
        let set = SkillSet::new(vec![plain, planned, own.clone()]);
        let names: Vec<&str> = set.all().iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["brief", "brief", "notes"]);
        assert_eq!(set.all()[0], own, "the persona's own one first");
        let tools: Vec<String> = set.tools().into_iter().map(|entry| entry.name).collect();
        assert_eq!(tools, ["skill_brief"]);
        let found = set.searchable().expect("a part").tools.iter().map(|tool| tool.exposed.to_string());
        assert_eq!(found.collect::<Vec<_>>(), ["brief", "notes"]);
    }
}
