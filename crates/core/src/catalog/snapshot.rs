//! One moment of the catalog: immutable, shared, replaced whole.

use super::admission::ServerCatalog;
use super::bounds::{Backing, Evenness};
use super::index::{Lookup, NameIndex};
use super::listing::{ListBytes, ListKind};
use super::roll::{Roll, View};
use super::tool::{Offer, Tool};
use super::views::Views;
use crate::caller::Caller;
use crate::compliance::{Meeting, meet};
use crate::exposure::meta::is_meta;
use crate::json::RawJson;
use crate::names::ServerName;
use crate::permission::{Extent, Permission, extent, on_offer, on_server, on_tool, tools_extent};
use crate::search::{Given, Hit, Index, Query};
use crate::server::ServerEntry;
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

/// How many views' lists are kept; beyond that the cache starts anew.
const MAX_VIEWS: usize = 256;
/// How many views' `_mcp_data` is kept; it may be large.
const MAX_TOLD: usize = 16;

/// What all servers offer, at one revision.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Grows with every change of meaning.
    pub revision: u64,
    servers: BTreeMap<ServerName, Arc<ServerCatalog>>,
    index: NameIndex,
    gates: Vec<Gate>,
    lists: Mutex<HashMap<(ListKind, String), Arc<ListBytes>>>,
    told: Mutex<HashMap<String, RawJson>>,
    roll: Roll,
    search: OnceLock<Index>,
    views: Views,
}

impl Catalog {
    /// A snapshot of these servers.
    pub fn new(revision: u64, servers: BTreeMap<ServerName, Arc<ServerCatalog>>) -> Self {
        let index = NameIndex::of(servers.values());
        let gates = gates_of(&servers);
        Self {
            revision,
            servers,
            index,
            gates,
            lists: Mutex::default(),
            told: Mutex::default(),
            roll: Roll::default(),
            search: OnceLock::new(),
            views: Views::default(),
        }
    }

    /// All servers' parts, by name. For the gateway's own use: nobody's rights are applied.
    pub fn servers(&self) -> &BTreeMap<ServerName, Arc<ServerCatalog>> {
        &self.servers
    }

    /// The servers this caller may use.
    pub fn visible<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a Arc<ServerCatalog>> {
        self.servers.values().filter(move |server| on_server(caller, &server.entry) == Permission::Granted)
    }

    /// Finds a tool this caller may use.
    pub fn tool(&self, name: &str, caller: &Caller) -> Lookup<'_> {
        self.index.look_up(name, |tool: &Tool| on_tool(caller, tool) == Permission::Granted)
    }

    /// A tool that a name resolves to, before rights are checked.
    pub fn anybodys(&self, name: &str) -> Option<&Arc<Tool>> {
        match self.index.look_up(name, |_| true) {
            Lookup::Found(tool) => Some(tool),
            Lookup::Ambiguous(tools) => tools.into_iter().next(),
            Lookup::Unknown => None,
        }
    }

    /// The tool of an exposed name, nobody's rights applied.
    pub fn exposed(&self, name: &str) -> Option<&Arc<Tool>> {
        self.index.exposed(name)
    }

    /// The tools of servers that this caller may use, in the order of the list. The gateway's own are for models.
    pub fn tools<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a Arc<Tool>> {
        let servers = self.visible(caller).filter(|server| !server.entry.is_own());
        servers.flat_map(|server| &server.tools).filter(|tool| granted(on_tool(caller, tool)))
    }

    /// The tools that any of these callers may use, by name. They are one person through several personas.
    pub fn roll<'a>(&'a self, callers: &[Arc<Caller>]) -> impl Iterator<Item = &'a Arc<Tool>> + use<'a> {
        let others = self.servers.values().filter(|server| !server.entry.is_own());
        let tools = self.roll.tools(others.flat_map(|server| &server.tools));
        let reading = |caller: &Arc<Caller>| (caller.clone(), self.roll.view(self.view_of(caller)), 0);
        let mut views: Vec<(Arc<Caller>, Arc<View>, usize)> = callers.iter().map(reading).collect();
        std::iter::from_fn(move || {
            let place = |(caller, view, at): &(Arc<Caller>, Arc<View>, usize)| {
                view.place(*at, tools, |tool| granted(on_tool(caller, tool)))
            };
            let next = views.iter().filter_map(place).min()?;
            for read in &mut views {
                read.2 += usize::from(place(read) == Some(next));
            }
            tools.get(next)
        })
    }

    /// The tools this caller may use that fit a query best, best first. Others are as if they did not exist: they
    /// do not even change the order.
    pub fn search(&self, caller: &Caller, query: &Query) -> Vec<Hit> {
        self.search_with(caller, query, None)
    }

    /// The same, with an encoder's word on how like tools are to texts.
    pub fn search_with(&self, caller: &Caller, query: &Query, given: Option<&Given>) -> Vec<Hit> {
        let index = self.search_index();
        let view = index.view(self.view_of(caller), |tool| granted(on_tool(caller, tool)));
        index.search(&view, query, given)
    }

    /// The search index, made when somebody first asks. Servers that are as they were are not read again.
    pub fn search_index(&self) -> &Index {
        self.search.get_or_init(|| Index::of(self.servers.values()))
    }

    /// What tells this caller's view of the catalog from others', within one revision.
    pub fn view_key(&self, caller: &Caller) -> String {
        self.view_of(caller)
    }

    pub(super) fn views(&self) -> &Views {
        &self.views
    }

    /// Finds a prompt by its exposed name, or by its own when only one server has it.
    pub fn prompt<'a>(&'a self, name: &str, caller: &'a Caller) -> Option<&'a Offer> {
        let visible = || {
            let prompts = self.visible(caller).flat_map(|server| &server.prompts);
            prompts.filter(|prompt| granted(on_offer(caller, prompt)))
        };
        if let Some(prompt) = visible().find(|prompt| &*prompt.exposed == name) {
            return Some(prompt);
        }
        let mut own = visible().filter(|prompt| &*prompt.key == name);
        own.next().filter(|_| own.next().is_none())
    }

    /// Whether a server lists a resource, or a template that could match it.
    pub fn lists_resource(&self, uri: &str, caller: &Caller) -> bool {
        !self.claimants(uri, caller).is_empty()
    }

    /// Finds the servers that have a resource, or a template that could match it, or may have it unlisted.
    pub fn resource<'a>(&'a self, uri: &str, caller: &'a Caller) -> Vec<&'a Arc<ServerCatalog>> {
        let claimants = self.claimants(uri, caller);
        if !claimants.is_empty() {
            return claimants;
        }
        // Servers may serve resources that they do not list: ask those that speak of resources at all. A
        // persona that names single things has not named those.
        let speaks = |server: &ServerCatalog| {
            server.capabilities.as_ref().is_some_and(|c| c.member("resources").is_some())
        };
        let whole = |server: &ServerCatalog| extent(caller, &server.entry) == Extent::Whole;
        self.visible(caller).filter(|server| whole(server) && speaks(server)).collect()
    }

    /// The server of a resource or template that is listed under exactly this key.
    pub fn listed_resource<'a>(&'a self, uri: &str, caller: &'a Caller) -> Option<&'a Arc<ServerCatalog>> {
        self.visible(caller).find(|server| {
            let mut offers = server.templates.iter().chain(&server.resources);
            offers.any(|offer| &*offer.key == uri && granted(on_offer(caller, offer)))
        })
    }

    fn claimants<'a>(&'a self, uri: &str, caller: &'a Caller) -> Vec<&'a Arc<ServerCatalog>> {
        let has = |offers: &[Offer], fits: &dyn Fn(&str) -> bool| {
            offers.iter().any(|offer| fits(&offer.key) && granted(on_offer(caller, offer)))
        };
        let listed: Vec<_> =
            self.visible(caller).filter(|server| has(&server.resources, &|key| key == uri)).collect();
        if !listed.is_empty() {
            return listed;
        }
        self.visible(caller).filter(|server| has(&server.templates, &|key| could_match(key, uri))).collect()
    }

    /// The list this caller is sent, as ready bytes.
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
        // The gateway's own tools are of no use to somebody who has no others.
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

    /// What tools are told of this caller's view of the catalog, made once per view and snapshot.
    pub(crate) fn told(&self, caller: &Caller, make: impl FnOnce() -> RawJson) -> RawJson {
        let view = self.view_of(caller);
        let told = || self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = told().get(&view) {
            return known.clone();
        }
        let made = make(); // Without the lock: others need not wait.
        let mut told = told();
        if told.len() >= MAX_TOLD {
            told.clear();
        }
        told.insert(view, made.clone());
        made
    }

    /// Callers with the same view see the same list: the same servers, through the same persona. Groups that
    /// open no server make no view of their own, so there are no more views than rights differ.
    fn view_of(&self, caller: &Caller) -> String {
        let persona = caller.persona.as_deref().map_or("", |persona| persona.key());
        let mut view = String::with_capacity(self.servers.len() + persona.len());
        for server in self.servers.values() {
            view.push(if granted(on_server(caller, &server.entry)) { '1' } else { '0' });
        }
        for gate in &self.gates {
            view.push(if gate.lets(caller) { '1' } else { '0' });
        }
        view.push_str(persona);
        if let Some(rules) = &caller.veil {
            view.push('\n');
            view.push_str(&rules.signature(caller));
        }
        view
    }
}

/// What decides about single tools besides servers, personas and rules.
#[derive(Debug, PartialEq)]
enum Gate {
    /// Groups that admit to a tool.
    Groups(Vec<String>),
    /// A server that has told nothing yet, on which a tool of a manifest rests.
    Server(Arc<ServerEntry>),
    /// A server whose level of data decides whether a tool of a manifest can rest on it.
    Level(Arc<ServerEntry>),
}

impl Gate {
    fn lets(&self, caller: &Caller) -> bool {
        match self {
            Self::Groups(groups) => groups.iter().any(|group| caller.groups.contains(group)),
            Self::Server(server) => granted(on_server(caller, server)) && Self::meets(caller, server),
            Self::Level(server) => Self::meets(caller, server),
        }
    }

    fn meets(caller: &Caller, server: &ServerEntry) -> bool {
        meet(caller, server) == Meeting::Allowed
    }
}

fn gates_of(servers: &BTreeMap<ServerName, Arc<ServerCatalog>>) -> Vec<Gate> {
    let mut gates = Vec::new();
    let mut add = |gate: Gate| {
        if !gates.contains(&gate) {
            gates.push(gate);
        }
    };
    let uneven = servers.values().filter(|server| server.evenness == Evenness::Uneven);
    for bounds in uneven.flat_map(|server| &server.tools).filter_map(|tool| tool.bounds.as_deref()) {
        bounds.groups.iter().for_each(|groups| add(Gate::Groups(groups.clone())));
        for backing in &bounds.backing {
            match backing {
                Backing::Unheard(server) => add(Gate::Server(server.clone())),
                Backing::Tools(tools) => tools
                    .iter()
                    .filter(|tool| tool.server.compliance_level.is_some())
                    .for_each(|tool| add(Gate::Level(tool.server.clone()))),
                Backing::Itself | Backing::Open | Backing::Nobody => {}
            }
        }
    }
    gates
}

fn granted(permission: Permission) -> bool {
    permission == Permission::Granted
}

/// A key that several servers have is listed once, for the first: that one is asked first, too.
fn text_of<'a>(
    kind: ListKind,
    server: &'a ServerCatalog,
    caller: &Caller,
    seen: &mut HashSet<&'a str>,
) -> Bytes {
    let offers = match kind {
        // The meta tools are for those who are not shown all others.
        ListKind::Tools if server.entry.is_own() => {
            let listed = server.tools.iter().filter(|tool| !is_meta(tool));
            return joined(listed.map(|tool| tool.definition.as_bytes()));
        }
        ListKind::Tools if tools_extent(caller, server) == Extent::Whole => {
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
    let offers =
        offers.iter().filter(|offer| granted(on_offer(caller, offer)) && seen.insert(&offer.exposed));
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

/// Whether a URI template could give this URI: its fixed parts stand in the URI, in order.
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
