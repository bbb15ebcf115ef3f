//! One version of the catalog: immutable, shared, and replaced as a whole.

use super::admission::ServerCatalog;
use super::bounds::{Backing, ToolAccess};
use super::index::{Lookup, NameIndex};
use super::listing::{ListBytes, ListKind};
use super::sorted::{SortedTools, SortedView};
use super::tool::{CatalogItem, Tool};
use super::views::Views;
use crate::caller::Caller;
use crate::compliance::{Compatibility, compatibility};
use crate::exposure::meta::is_meta;
use crate::json::RawJson;
use crate::names::ServerName;
use crate::permission::{Permission, ServerVisibility, extent, on_item, on_server, on_tool, tools_extent};
use crate::search::{EncodedQuery, Hit, Index, Query};
use crate::server::ServerEntry;
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

/// How many views have cached lists. Beyond that, the cache is cleared.
const MAX_VIEWS: usize = 256;
/// How many views have cached `_mcp_data`, which may be large.
const MAX_MCP_DATA_VIEWS: usize = 16;

/// An immutable snapshot of what all servers offer, at one revision.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Increases with every change of meaning.
    pub revision: u64,
    servers: BTreeMap<ServerName, Arc<ServerCatalog>>,
    index: NameIndex,
    conditions: Vec<ViewCondition>,
    lists: Mutex<HashMap<(ListKind, String), Arc<ListBytes>>>,
    mcp_data: Mutex<HashMap<String, RawJson>>,
    sorted: SortedTools,
    search: OnceLock<Index>,
    views: Views,
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
            views: Views::default(),
        }
    }

    /// All servers' parts, by name. For internal use: no permissions are applied.
    pub fn servers(&self) -> &BTreeMap<ServerName, Arc<ServerCatalog>> {
        &self.servers
    }

    /// The servers that a caller may use.
    pub fn visible<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a Arc<ServerCatalog>> {
        self.servers.values().filter(move |server| on_server(caller, &server.entry) == Permission::Granted)
    }

    /// Finds a tool that a caller may use.
    pub fn tool(&self, name: &str, caller: &Caller) -> Lookup<'_> {
        self.index.look_up(name, |tool: &Tool| on_tool(caller, tool) == Permission::Granted)
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

    /// The tools of servers that a caller may use, in list order, without the gateway's own tools.
    pub fn tools<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a Arc<Tool>> {
        let servers = self.visible(caller).filter(|server| !server.entry.is_own());
        servers.flat_map(|server| &server.tools).filter(|tool| granted(on_tool(caller, tool)))
    }

    /// The tools that any of these callers may use, sorted by name. The callers are one user with several personas.
    pub fn tools_by_name<'a>(
        &'a self,
        callers: &[Arc<Caller>],
    ) -> impl Iterator<Item = &'a Arc<Tool>> + use<'a> {
        let others = self.servers.values().filter(|server| !server.entry.is_own());
        let tools = self.sorted.tools(others.flat_map(|server| &server.tools));
        let reading = |caller: &Arc<Caller>| (caller.clone(), self.sorted.view(self.view_of(caller)), 0);
        let mut views: Vec<(Arc<Caller>, Arc<SortedView>, usize)> = callers.iter().map(reading).collect();
        std::iter::from_fn(move || {
            let place = |(caller, view, at): &(Arc<Caller>, Arc<SortedView>, usize)| {
                view.place(*at, tools, |tool| granted(on_tool(caller, tool)))
            };
            let next = views.iter().filter_map(place).min()?;
            for read in &mut views {
                read.2 += usize::from(place(read) == Some(next));
            }
            tools.get(next)
        })
    }

    /// The tools of a caller that match a query best, best first. Tools the caller may not use do not affect the order.
    pub fn search(&self, caller: &Caller, query: &Query) -> Vec<Hit> {
        self.search_with(caller, query, None)
    }

    /// Like [`Self::search`], with similarities computed by an encoder.
    pub fn search_with(&self, caller: &Caller, query: &Query, given: Option<&EncodedQuery>) -> Vec<Hit> {
        let index = self.search_index();
        let view = index.view(self.view_of(caller), |tool| granted(on_tool(caller, tool)));
        index.search(&view, query, given)
    }

    /// The search index, built on first use. Servers that have not changed are not indexed again.
    pub fn search_index(&self) -> &Index {
        self.search.get_or_init(|| Index::of(self.servers.values()))
    }

    /// The key of a caller's view of the catalog, unique within one revision.
    pub fn view_key(&self, caller: &Caller) -> String {
        self.view_of(caller)
    }

    pub(super) fn views(&self) -> &Views {
        &self.views
    }

    /// Finds a prompt by its exposed name, or by its own name if only one server has it.
    pub fn prompt<'a>(&'a self, name: &str, caller: &'a Caller) -> Option<&'a CatalogItem> {
        let visible = || {
            let prompts = self.visible(caller).flat_map(|server| &server.prompts);
            prompts.filter(|prompt| granted(on_item(caller, prompt)))
        };
        if let Some(prompt) = visible().find(|prompt| &*prompt.exposed == name) {
            return Some(prompt);
        }
        let mut own = visible().filter(|prompt| &*prompt.key == name);
        own.next().filter(|_| own.next().is_none())
    }

    /// Whether a server lists a resource or a template that could match it.
    pub fn lists_resource(&self, uri: &str, caller: &Caller) -> bool {
        !self.claimants(uri, caller).is_empty()
    }

    /// The servers that list a resource or a template that could match it, or that may serve it unlisted.
    pub fn resource<'a>(&'a self, uri: &str, caller: &'a Caller) -> Vec<&'a Arc<ServerCatalog>> {
        let claimants = self.claimants(uri, caller);
        if !claimants.is_empty() {
            return claimants;
        }
        // Servers may serve resources that they do not list, so ask all that declare resources. A persona that names
        // individual items does not include unlisted ones.
        let speaks = |server: &ServerCatalog| {
            server.capabilities.as_ref().is_some_and(|c| c.member("resources").is_some())
        };
        let whole = |server: &ServerCatalog| extent(caller, &server.entry) == ServerVisibility::Whole;
        self.visible(caller).filter(|server| whole(server) && speaks(server)).collect()
    }

    /// The server that lists a resource or template under exactly this key.
    pub fn listed_resource<'a>(&'a self, uri: &str, caller: &'a Caller) -> Option<&'a Arc<ServerCatalog>> {
        self.visible(caller).find(|server| {
            let mut offers = server.templates.iter().chain(&server.resources);
            offers.any(|offer| &*offer.key == uri && granted(on_item(caller, offer)))
        })
    }

    fn claimants<'a>(&'a self, uri: &str, caller: &'a Caller) -> Vec<&'a Arc<ServerCatalog>> {
        let has = |offers: &[CatalogItem], fits: &dyn Fn(&str) -> bool| {
            offers.iter().any(|offer| fits(&offer.key) && granted(on_item(caller, offer)))
        };
        let listed: Vec<_> =
            self.visible(caller).filter(|server| has(&server.resources, &|key| key == uri)).collect();
        if !listed.is_empty() {
            return listed;
        }
        self.visible(caller).filter(|server| has(&server.templates, &|key| could_match(key, uri))).collect()
    }

    /// The serialized list for a caller.
    pub fn list(&self, kind: ListKind, caller: &Caller) -> Arc<ListBytes> {
        let view = (kind, self.view_of(caller));
        let mut lists = self.lists.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(list) = lists.get(&view) {
            return list.clone();
        }
        let mut seen = HashSet::new();
        let mut texts: Vec<Bytes> = Vec::with_capacity(self.servers.len());
        let mut others = false;
        for server in self.visible(caller) {
            let text = text_of(kind, server, caller, &mut seen);
            others |= !text.is_empty() && !server.entry.is_own();
            texts.push(text);
        }
        // The gateway's own tools are useless without other tools.
        if !others {
            texts.clear();
        }
        let list = Arc::new(ListBytes::join(kind, texts.iter()));
        if lists.len() >= MAX_VIEWS {
            lists.clear();
        }
        lists.insert(view, list.clone());
        list
    }

    /// The `_mcp_data` of a caller's view, built once per view and snapshot.
    pub(crate) fn mcp_data(&self, caller: &Caller, make: impl FnOnce() -> RawJson) -> RawJson {
        let view = self.view_of(caller);
        let cache = || self.mcp_data.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = cache().get(&view) {
            return known.clone();
        }
        let made = make(); // Without the lock, so that other calls do not wait.
        let mut cache = cache();
        if cache.len() >= MAX_MCP_DATA_VIEWS {
            cache.clear();
        }
        cache.insert(view, made.clone());
        made
    }

    /// The key of a caller's view. Callers with the same servers and persona share a view; groups that admit to no
    /// server do not count, so there are only as many views as there are different rights.
    fn view_of(&self, caller: &Caller) -> String {
        let persona = caller.persona.as_deref().map_or("", |persona| persona.key());
        let mut view = String::with_capacity(self.servers.len() + persona.len());
        for server in self.servers.values() {
            view.push(if granted(on_server(caller, &server.entry)) { '1' } else { '0' });
        }
        for condition in &self.conditions {
            view.push(if condition.lets(caller) { '1' } else { '0' });
        }
        view.push_str(persona);
        if let Some(rules) = &caller.hiding_rules {
            view.push('\n');
            view.push_str(&rules.signature(caller));
        }
        view
    }
}

/// A condition on individual tools, besides servers, personas and rules.
#[derive(Debug, PartialEq)]
enum ViewCondition {
    /// Groups that admit to a tool.
    Groups(Vec<String>),
    /// A server without a known list that backs a manifest's tool.
    Server(Arc<ServerEntry>),
    /// A server whose compliance level decides whether it can back a manifest's tool.
    Level(Arc<ServerEntry>),
}

impl ViewCondition {
    fn lets(&self, caller: &Caller) -> bool {
        match self {
            Self::Groups(groups) => groups.iter().any(|group| caller.groups.contains(group)),
            Self::Server(server) => granted(on_server(caller, server)) && Self::meets(caller, server),
            Self::Level(server) => Self::meets(caller, server),
        }
    }

    fn meets(caller: &Caller, server: &ServerEntry) -> bool {
        compatibility(caller, server) == Compatibility::Allowed
    }
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

fn granted(permission: Permission) -> bool {
    permission == Permission::Granted
}

/// Joins the definitions of one server. A key that several servers have is listed once, for the server asked first.
fn text_of<'a>(
    kind: ListKind,
    server: &'a ServerCatalog,
    caller: &Caller,
    seen: &mut HashSet<&'a str>,
) -> Bytes {
    let offers = match kind {
        // The meta tools are for clients that do not see all other tools.
        ListKind::Tools if server.entry.is_own() => {
            let listed = server.tools.iter().filter(|tool| !is_meta(tool));
            return joined(listed.map(|tool| tool.definition.as_bytes()));
        }
        ListKind::Tools if tools_extent(caller, server) == ServerVisibility::Whole => {
            return server.tools_text.clone();
        }
        ListKind::Tools => {
            let tools = server.tools.iter().filter(|tool| granted(on_tool(caller, tool)));
            return joined(tools.map(|tool| tool.definition.as_bytes()));
        }
        ListKind::Prompts => &server.prompts,
        ListKind::Resources => &server.resources,
        ListKind::Templates => &server.templates,
    };
    let offers = offers.iter().filter(|offer| granted(on_item(caller, offer)) && seen.insert(&offer.exposed));
    joined(offers.map(|offer| offer.definition.as_bytes()))
}

fn joined<'a>(definitions: impl Iterator<Item = &'a [u8]>) -> Bytes {
    let mut text = BytesMut::new();
    for definition in definitions {
        if !text.is_empty() {
            text.extend_from_slice(b",");
        }
        text.extend_from_slice(definition);
    }
    text.freeze()
}

/// Whether a URI template could produce this URI: the URI contains its fixed parts, in order.
fn could_match(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut parts = template.split('{');
    let Some(first) = parts.next() else { return false };
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    for part in parts {
        let fixed = part.split_once('}').map_or("", |(_, fixed)| fixed);
        match rest.find(fixed) {
            Some(at) => rest = &rest[at + fixed.len()..],
            None => return false,
        }
    }
    rest.is_empty() || template.ends_with('}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_match_by_their_fixed_parts() {
        let cases = [
            ("test://template/{id}/data", "test://template/7/data", true),
            ("test://template/{id}/data", "test://template/7/other", false),
            ("file:///{path}", "file:///a/b", true),
            ("file:///{path}", "http://a", false),
            ("note://fixed", "note://fixed", true),
            ("note://fixed", "note://fixed2", false),
        ];
        for (template, uri, expected) in cases {
            assert_eq!(could_match(template, uri), expected, "{template} {uri}");
        }
    }
}
