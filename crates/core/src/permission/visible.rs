//! The part of the catalog that a caller may see: lookups and lists with the permission decision applied.

use super::{Permission, ServerVisibility};
use super::{extent, on_item, on_own_prompt, on_skill, on_tool, tools_extent};
use crate::caller::Caller;
use crate::catalog::{
    Catalog, CatalogItem, ListBytes, ListKind, Lookup, ServerCatalog, SortedView, Tool, ViewCondition,
};
use crate::json::RawJson;
use crate::names::ServerName;
use crate::own_prompt::OwnPrompt;
use crate::skill::{Skill, SkillFile, find_file};
use bytes::{Bytes, BytesMut};
use std::collections::HashSet;
use std::sync::Arc;

/// How many views have cached lists. Beyond that, the cache is cleared.
const MAX_VIEWS: usize = 256;
/// How many views have cached `_mcp_data`, which may be large.
const MAX_MCP_DATA_VIEWS: usize = 16;

impl Catalog {
    /// The servers that a caller may use.
    pub fn visible<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a Arc<ServerCatalog>> {
        self.servers()
            .values()
            .filter(move |server| extent(caller, &server.entry) != ServerVisibility::Nothing)
    }

    /// Finds a tool that a caller may use.
    pub fn tool(&self, name: &str, caller: &Caller) -> Lookup<'_> {
        self.names().look_up(name, |tool: &Tool| on_tool(caller, tool) == Permission::Granted)
    }

    /// The tool with a name that only the caller's compliance level hides.
    pub fn kept_out_by_level(&self, name: &str, caller: &Caller) -> Option<&Arc<Tool>> {
        caller.compliance_level.as_ref()?;
        let unlevelled = Caller { compliance_level: None, ..caller.clone() };
        match self.tool(name, &unlevelled) {
            Lookup::Found(tool) if !granted(on_tool(caller, tool)) => Some(tool),
            _ => None,
        }
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
        let others = self.servers().values().filter(|server| !server.entry.is_own());
        let tools = self.sorted.tools(others.flat_map(|server| &server.tools));
        let reading = |caller: &Arc<Caller>| (caller.clone(), self.sorted.view(self.view_key(caller)), 0);
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

    /// Finds a tool by any accepted name among those a caller may use, without the gateway's own tools.
    pub fn served_tool(&self, name: &str, caller: &Caller) -> Lookup<'_> {
        match self.tool(name, caller) {
            Lookup::Found(tool) if tool.server.is_own() => Lookup::Unknown,
            found => found,
        }
    }

    /// Finds a prompt of the gateway's own. Its name has precedence over the names of servers' prompts.
    pub fn own_prompt<'a>(&'a self, name: &str, caller: &'a Caller) -> Option<&'a OwnPrompt> {
        self.visible_own_prompts(caller).find(|prompt| prompt.name() == name)
    }

    fn visible_own_prompts<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a OwnPrompt> {
        self.own_prompts().iter().filter(|prompt| granted(on_own_prompt(caller, prompt)))
    }

    /// The skills that a caller may see, sorted by name. A persona's own skill shadows the shared one of its name.
    pub fn skills<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a Arc<Skill>> {
        let mut last: Option<&str> = None;
        let visible = self.skill_set().all().iter().filter(|skill| granted(on_skill(caller, skill)));
        visible.filter(move |skill| last.replace(&skill.name) != Some(skill.name.as_str()))
    }

    /// Finds a skill that a caller may see.
    pub fn skill<'a>(&'a self, name: &str, caller: &'a Caller) -> Option<&'a Arc<Skill>> {
        self.skills(caller).find(|skill| skill.name == name)
    }

    /// Finds a file of a skill by its URI.
    pub fn skill_file<'a>(&'a self, uri: &str, caller: &'a Caller) -> Option<(&'a Skill, &'a SkillFile)> {
        let name = uri.strip_prefix("skill://")?.split('/').next()?;
        let skill = self.skill(name, caller)?;
        find_file(uri, &skill.files, &skill.name).map(|file| (&**skill, file))
    }

    /// Finds a server's prompt by its exposed name, or by its own name if only one server has it.
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
        self.visible(caller).filter(|server| may_serve_unlisted(caller, server)).collect()
    }

    /// Whether one server may have a resource, whatever other servers list: it lists it or a template that could match
    /// it, or may serve it unlisted.
    pub fn may_have_resource(&self, server: &ServerName, uri: &str, caller: &Caller) -> bool {
        let Some(server) = self.servers().get(server) else { return false };
        if extent(caller, &server.entry) == ServerVisibility::Nothing {
            return false;
        }
        let resources = server.resources.iter().filter(|offer| &*offer.key == uri);
        let templates = server.templates.iter().filter(|offer| could_match(&offer.key, uri));
        resources.chain(templates).any(|offer| granted(on_item(caller, offer)))
            || may_serve_unlisted(caller, server)
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
        let view = (kind, self.view_key(caller));
        let mut lists = self.lists.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(list) = lists.get(&view) {
            return list.clone();
        }
        let mut seen = HashSet::new();
        let mut texts: Vec<Bytes> = Vec::with_capacity(self.servers().len() + 1);
        let mut others = false;
        if kind == ListKind::Prompts {
            let own = self.visible_own_prompts(caller).filter(|prompt| seen.insert(prompt.name()));
            let text = joined(own.map(|prompt| prompt.definition().as_bytes()));
            others = !text.is_empty();
            texts.push(text);
        }
        let skills = self.skill_texts(kind, caller, &mut seen);
        others |= !skills.is_empty();
        texts.push(skills);
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

    /// The definitions of skills in a list: as prompts, and their files as resources.
    fn skill_texts<'a>(&'a self, kind: ListKind, caller: &'a Caller, seen: &mut HashSet<&'a str>) -> Bytes {
        let mut definitions: Vec<RawJson> = Vec::new();
        for skill in self.skills(caller) {
            match kind {
                ListKind::Prompts if seen.insert(&skill.name) => definitions.push(skill.prompt_definition()),
                ListKind::Resources => {
                    // The first file has the instructions.
                    let about = std::iter::once(skill.about()).chain(std::iter::repeat(None));
                    let files = skill.files.iter().zip(about);
                    definitions.extend(files.map(|(file, about)| file.definition(&skill.name, about)));
                }
                ListKind::Prompts | ListKind::Tools | ListKind::Templates => {}
            }
        }
        joined(definitions.iter().map(RawJson::as_bytes))
    }

    /// The `_mcp_data` of a caller's view, built once per view and snapshot.
    pub(crate) fn mcp_data(&self, caller: &Caller, make: impl FnOnce() -> RawJson) -> RawJson {
        let view = self.view_key(caller);
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

    /// The key of a caller's view of the catalog, unique within one revision. Callers with the same servers and persona
    /// share a view; groups that admit to no server do not count, so there are only as many views as there are
    /// different rights.
    pub fn view_key(&self, caller: &Caller) -> String {
        let persona = caller.persona.as_deref().map_or("", |persona| persona.key());
        let mut view = String::with_capacity(self.servers().len() + persona.len());
        for server in self.servers().values() {
            let is_seen = extent(caller, &server.entry) != ServerVisibility::Nothing;
            view.push(if is_seen { '1' } else { '0' });
        }
        for condition in &self.conditions {
            view.push(if meets(caller, condition) { '1' } else { '0' });
        }
        view.push_str(persona);
        if let Some(rules) = &caller.hiding_rules {
            view.push('\n');
            view.push_str(&rules.signature(caller));
        }
        view
    }
}

/// Whether a caller meets a condition on individual tools.
fn meets(caller: &Caller, condition: &ViewCondition) -> bool {
    match condition {
        ViewCondition::Groups(groups) => groups.iter().any(|group| caller.groups.contains(group)),
        ViewCondition::Server(server) => extent(caller, server) != ServerVisibility::Nothing,
    }
}

fn granted(permission: Permission) -> bool {
    permission == Permission::Granted
}

/// Whether a server may have resources for a caller that it does not list. Servers may serve such, so all that declare
/// resources are asked. A persona that names individual items does not include unlisted ones.
fn may_serve_unlisted(caller: &Caller, server: &ServerCatalog) -> bool {
    let speaks = server.capabilities.as_ref().is_some_and(|c| c.member("resources").is_some());
    speaks && extent(caller, &server.entry) == ServerVisibility::Whole
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
            let listed = server.tools.iter().filter(|tool| !tool.is_meta());
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
