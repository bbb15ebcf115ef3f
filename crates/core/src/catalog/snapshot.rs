//! One moment of the catalog: immutable, shared, replaced whole.

use super::admission::ServerCatalog;
use super::index::{Lookup, NameIndex};
use super::listing::{ListBytes, ListKind};
use super::tool::{Offer, Tool};
use crate::caller::{Caller, Groups};
use crate::json::RawJson;
use crate::names::ServerName;
use crate::permission::{Permission, on_server};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

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
    lists: Mutex<HashMap<(ListKind, String), Arc<ListBytes>>>,
    told: Mutex<HashMap<String, RawJson>>,
}

impl Catalog {
    /// A snapshot of these servers.
    pub fn new(revision: u64, servers: BTreeMap<ServerName, Arc<ServerCatalog>>) -> Self {
        let index = NameIndex::of(servers.values());
        Self { revision, servers, index, lists: Mutex::default(), told: Mutex::default() }
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
        self.index.look_up(name, |tool: &Tool| on_server(caller, &tool.server) == Permission::Granted)
    }

    /// The tool of an exposed name, nobody's rights applied.
    pub fn exposed(&self, name: &str) -> Option<&Arc<Tool>> {
        self.index.exposed(name)
    }

    /// The tools this caller may use, in the order of the list.
    pub fn tools<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a Arc<Tool>> {
        self.visible(caller).flat_map(|server| &server.tools)
    }

    /// Finds a prompt by its exposed name, or by its own when only one server has it.
    pub fn prompt<'a>(&'a self, name: &str, caller: &'a Caller) -> Option<&'a Offer> {
        let mut exposed = self.visible(caller).flat_map(|server| &server.prompts);
        if let Some(prompt) = exposed.find(|prompt| &*prompt.exposed == name) {
            return Some(prompt);
        }
        let mut own =
            self.visible(caller).flat_map(|server| &server.prompts).filter(|prompt| &*prompt.key == name);
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
        // Servers may serve resources that they do not list: ask those that speak of resources at all.
        let speaks = |server: &ServerCatalog| {
            server.capabilities.as_ref().is_some_and(|c| c.member("resources").is_some())
        };
        self.visible(caller).filter(|server| speaks(server)).collect()
    }

    fn claimants<'a>(&'a self, uri: &str, caller: &'a Caller) -> Vec<&'a Arc<ServerCatalog>> {
        let listed: Vec<_> =
            self.visible(caller).filter(|server| server.resources.iter().any(|r| &*r.key == uri)).collect();
        if !listed.is_empty() {
            return listed;
        }
        self.visible(caller)
            .filter(|server| server.templates.iter().any(|template| could_match(&template.key, uri)))
            .collect()
    }

    /// The list this caller is sent, as ready bytes.
    pub fn list(&self, kind: ListKind, caller: &Caller) -> Arc<ListBytes> {
        let view = (kind, view_of(caller));
        let mut lists = self.lists.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(list) = lists.get(&view) {
            return list.clone();
        }
        let mut seen = HashSet::new();
        let texts: Vec<Bytes> = self.visible(caller).map(|server| text_of(kind, server, &mut seen)).collect();
        let list = Arc::new(ListBytes::join(kind, texts.iter()));
        if lists.len() >= MAX_VIEWS {
            lists.clear();
        }
        lists.insert(view, list.clone());
        list
    }
}

impl Catalog {
    /// What tools are told of this caller's view of the catalog, made once per view and snapshot.
    pub(crate) fn told(&self, caller: &Caller, make: impl FnOnce() -> RawJson) -> RawJson {
        let view = view_of(caller);
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
}

/// Callers with the same view see the same list.
fn view_of(caller: &Caller) -> String {
    match &caller.groups {
        Groups::All => "*".to_owned(),
        Groups::Named(names) => names.iter().fold(String::new(), |view, name| view + "\n" + name),
    }
}

/// A key that several servers have is listed once, for the first: that one is asked first, too.
fn text_of<'a>(kind: ListKind, server: &'a ServerCatalog, seen: &mut HashSet<&'a str>) -> Bytes {
    let offers = match kind {
        ListKind::Tools => return server.tools_text.clone(),
        ListKind::Prompts => &server.prompts,
        ListKind::Resources => &server.resources,
        ListKind::Templates => &server.templates,
    };
    let mut text = BytesMut::new();
    for offer in offers.iter().filter(|offer| seen.insert(&offer.exposed)) {
        if !text.is_empty() {
            text.extend_from_slice(b",");
        }
        text.extend_from_slice(offer.definition.as_bytes());
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
