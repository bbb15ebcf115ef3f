//! One version of the catalog: immutable, shared, and replaced as a whole.

use super::admission::ServerCatalog;
use super::bounds::{Backing, ToolAccess};
use super::derived::DerivedData;
use super::index::{Lookup, NameIndex};
use super::listing::{ListBytes, ListKind};
use super::sorted::SortedTools;
use super::tool::Tool;
use crate::caller::Caller;
use crate::json::RawJson;
use crate::names::ServerName;
use crate::permission::{Permission, on_tool};
use crate::search::{EncodedQuery, Hit, Index, Query};
use crate::server::ServerEntry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

/// An immutable snapshot of what all servers offer, at one revision.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Increases with every change of meaning.
    pub revision: u64,
    servers: BTreeMap<ServerName, Arc<ServerCatalog>>,
    index: NameIndex,
    /// The conditions on which views differ, besides servers, personas and rules.
    pub(crate) conditions: Vec<ViewCondition>,
    /// The lists of each view.
    pub(crate) lists: Mutex<HashMap<(ListKind, String), Arc<ListBytes>>>,
    /// The `_mcp_data` of each view.
    pub(crate) mcp_data: Mutex<HashMap<String, RawJson>>,
    pub(crate) sorted: SortedTools,
    search: OnceLock<Index>,
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
            conditions,
            lists: Mutex::default(),
            mcp_data: Mutex::default(),
            sorted: SortedTools::default(),
            search: OnceLock::new(),
            views: DerivedData::default(),
        }
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

    /// The tools of a caller that match a query best, best first. Tools the caller may not use do not affect the order.
    pub fn search(&self, caller: &Caller, query: &Query) -> Vec<Hit> {
        self.search_with(caller, query, None)
    }

    /// Like [`Self::search`], with similarities computed by an encoder.
    pub fn search_with(&self, caller: &Caller, query: &Query, given: Option<&EncodedQuery>) -> Vec<Hit> {
        let index = self.search_index();
        let view = index.view(self.view_key(caller), |tool| on_tool(caller, tool) == Permission::Granted);
        index.search(&view, query, given)
    }

    /// The search index, built on first use. Servers that have not changed are not indexed again.
    pub fn search_index(&self) -> &Index {
        self.search.get_or_init(|| Index::of(self.servers.values()))
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
    /// A server whose compliance level decides whether it can back a manifest's tool.
    Level(Arc<ServerEntry>),
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
        for backing in &bounds.backing {
            match backing {
                Backing::Undiscovered(server) => add(ViewCondition::Server(server.clone())),
                Backing::Tools(tools) => tools
                    .iter()
                    .filter(|tool| tool.server.compliance_level.is_some())
                    .for_each(|tool| add(ViewCondition::Level(tool.server.clone()))),
                Backing::Itself | Backing::Open | Backing::Missing => {}
            }
        }
    }
    conditions
}
