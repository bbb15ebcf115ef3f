//! One version of the catalog: immutable, shared, and replaced as a whole.

use super::admission::ServerCatalog;
use super::derived::DerivedData;
use super::index::{Lookup, NameIndex};
use super::listing::{ListBytes, ListKind};
use super::skills::SkillSet;
use super::sorted::SortedTools;
use super::tool::{Backing, Tool, ToolAccess};
use crate::json::RawJson;
use crate::names::ServerName;
use crate::own_prompt::{OwnPrompt, PromptAudience};
use crate::server::ServerEntry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// An immutable snapshot of what all servers offer, at one revision.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Increases with every change of meaning.
    pub revision: u64,
    servers: BTreeMap<ServerName, Arc<ServerCatalog>>,
    index: NameIndex,
    own_prompts: Arc<[OwnPrompt]>,
    skills: Arc<SkillSet>,
    /// The conditions on which views differ, besides servers, personas and rules.
    pub(crate) conditions: Vec<ViewCondition>,
    /// The lists of each view.
    pub(crate) lists: Mutex<HashMap<(ListKind, String), Arc<ListBytes>>>,
    /// The `_mcp_data` of each view.
    pub(crate) mcp_data: Mutex<HashMap<String, RawJson>>,
    pub(crate) sorted: SortedTools,
    derived: DerivedData,
    views: DerivedData,
}

impl Catalog {
    /// Builds a snapshot of these servers.
    pub fn new(revision: u64, servers: BTreeMap<ServerName, Arc<ServerCatalog>>) -> Self {
        let index = NameIndex::of(servers.values());
        let conditions = conditions_of(&servers);
        Self {
            revision,
            servers,
            index,
            own_prompts: Arc::default(),
            skills: Arc::default(),
            conditions,
            lists: Mutex::default(),
            mcp_data: Mutex::default(),
            sorted: SortedTools::default(),
            derived: DerivedData::default(),
            views: DerivedData::default(),
        }
    }

    /// The same snapshot with prompts of the gateway's own.
    #[must_use]
    pub fn with_prompts(mut self, prompts: Arc<[OwnPrompt]>) -> Self {
        for prompt in prompts.iter() {
            if let PromptAudience::Groups(groups) = prompt.audience() {
                self.add_groups(groups);
            }
        }
        self.own_prompts = prompts;
        self
    }

    /// The same snapshot with skills.
    #[must_use]
    pub fn with_skills(mut self, skills: Arc<SkillSet>) -> Self {
        skills
            .all()
            .iter()
            .filter_map(|skill| skill.groups.as_ref())
            .for_each(|groups| self.add_groups(groups));
        self.skills = skills;
        self
    }

    fn add_groups(&mut self, groups: &[String]) {
        let condition = ViewCondition::Groups(groups.to_vec());
        if !self.conditions.contains(&condition) {
            self.conditions.push(condition);
        }
    }

    /// The skills, without permission checks.
    pub fn skill_set(&self) -> &Arc<SkillSet> {
        &self.skills
    }

    /// The prompts of the gateway's own, without permission checks.
    pub(crate) fn own_prompts(&self) -> &[OwnPrompt] {
        &self.own_prompts
    }

    /// All servers' parts, by name. For internal use: no permissions are applied.
    pub fn servers(&self) -> &BTreeMap<ServerName, Arc<ServerCatalog>> {
        &self.servers
    }

    /// The tool with a name, without permission checks.
    pub fn unrestricted_tool(&self, name: &str) -> Option<&Arc<Tool>> {
        match self.index.look_up(name, |_| true) {
            Lookup::Found(tool) => Some(tool),
            Lookup::Ambiguous(tools) => tools.into_iter().next(),
            Lookup::Unknown => None,
        }
    }

    /// The tool with an exposed name, without permission checks.
    pub fn exposed(&self, name: &str) -> Option<&Arc<Tool>> {
        self.index.exposed(name)
    }

    /// Data that another crate derives from the snapshot, such as the search index.
    pub fn derived(&self) -> &DerivedData {
        &self.derived
    }

    /// The index of names, without permission checks.
    pub(crate) fn names(&self) -> &NameIndex {
        &self.index
    }

    /// The lists in the forms that clients see, kept by `exposure`.
    pub(crate) fn views(&self) -> &DerivedData {
        &self.views
    }
}

/// A condition on individual tools, besides servers, personas and rules.
#[derive(Debug, PartialEq)]
pub(crate) enum ViewCondition {
    /// Groups that admit to a tool.
    Groups(Vec<String>),
    /// A server without a known list that backs a manifest's tool.
    Server(Arc<ServerEntry>),
}

fn conditions_of(servers: &BTreeMap<ServerName, Arc<ServerCatalog>>) -> Vec<ViewCondition> {
    let mut conditions = Vec::new();
    let mut add = |condition: ViewCondition| {
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    };
    let uneven = servers.values().filter(|server| server.tool_access == ToolAccess::PerTool);
    for bounds in uneven.flat_map(|server| &server.tools).filter_map(|tool| tool.bounds.as_deref()) {
        bounds.groups.iter().for_each(|groups| add(ViewCondition::Groups(groups.clone())));
        let rivals = bounds.only_with.iter().chain(&bounds.only_without);
        rivals.for_each(|server| add(ViewCondition::Server(server.clone())));
        for backing in &bounds.backing {
            if let Backing::Undiscovered(server) = backing {
                add(ViewCondition::Server(server.clone()));
            }
        }
    }
    conditions
}
