//! The name index: maps every accepted spelling to a tool. Names are looked up, never parsed.

use super::admission::ServerCatalog;
use super::spelling;
use super::tool::Tool;
use crate::clients::name_limits;
use crate::name_map::NameMap;
use crate::own_names::RESERVED;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};

/// The result of looking up a name.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// One tool.
    Found(&'a Arc<Tool>),
    /// Several tools; the caller must choose.
    Ambiguous(Vec<&'a Arc<Tool>>),
    /// No tool.
    Unknown,
}

/// Maps names to tools.
#[derive(Debug, Default)]
pub struct NameIndex {
    exposed: NameMap<Box<str>, Arc<Tool>>,
    /// Further tools of the same name, each for different callers. Checked only if the first is not visible.
    variants: HashMap<Box<str>, Vec<Arc<Tool>>>,
    /// Other spellings, indexed when one is first used, because most clients never use one.
    other: OnceLock<HashMap<String, Vec<Arc<Tool>>>>,
}

impl NameIndex {
    /// Indexes the tools of all servers.
    pub fn of<'a>(servers: impl Iterator<Item = &'a Arc<ServerCatalog>>) -> Self {
        let mut exposed = NameMap::default();
        let mut variants: HashMap<Box<str>, Vec<Arc<Tool>>> = HashMap::new();
        for server in servers {
            exposed.reserve(server.tools.len());
            for tool in &server.tools {
                match exposed.entry(tool.exposed.clone()) {
                    Entry::Vacant(free) => drop(free.insert(tool.clone())),
                    Entry::Occupied(mut known) => {
                        // The owner of the name comes before tools that have it for some callers only.
                        let other = match known.get().hashed_name.is_some() {
                            true => known.insert(tool.clone()),
                            false => tool.clone(),
                        };
                        variants.entry(tool.exposed.clone()).or_default().push(other);
                    }
                }
            }
        }
        Self { exposed, variants, other: OnceLock::new() }
    }

    /// The tool with an exposed name.
    pub fn exposed(&self, name: &str) -> Option<&Arc<Tool>> {
        self.exposed.get(name)
    }

    /// Looks up any accepted spelling among the visible tools.
    pub fn look_up(&self, name: &str, visible: impl Fn(&Tool) -> bool) -> Lookup<'_> {
        if let Some(tool) = self.exposed.get(name).filter(|tool| visible(tool)) {
            return Lookup::Found(tool);
        }
        if let Some(tool) = self.variants.get(name).into_iter().flatten().find(|tool| visible(tool)) {
            return Lookup::Found(tool);
        }
        let others = self.other.get_or_init(|| self.spellings());
        let mut found: Vec<_> = others.get(name).into_iter().flatten().filter(|tool| visible(tool)).collect();
        match (found.pop(), found.is_empty()) {
            (None, _) => Lookup::Unknown,
            (Some(tool), true) => Lookup::Found(tool),
            (Some(tool), false) => {
                found.push(tool);
                Lookup::Ambiguous(found)
            }
        }
    }

    fn spellings(&self) -> HashMap<String, Vec<Arc<Tool>>> {
        let mut spellings: HashMap<String, Vec<Arc<Tool>>> = HashMap::with_capacity(self.exposed.len() * 5);
        let mut tools: Vec<_> = self.exposed.values().chain(self.variants.values().flatten()).collect();
        tools.sort_by(|a, b| a.exposed.cmp(&b.exposed));
        let limits: Vec<usize> = name_limits().collect();
        for tool in &tools {
            let mut forms = match tool.server.is_virtual() {
                true => vec![tool.canonical(), tool.name.to_string()],
                false => spelling::all(tool.server.name.as_str(), &tool.name),
            };
            // A tool that a manifest renamed can still be called by its old name.
            forms.extend(tool.original.iter().map(|original| original.exposed.to_string()));
            forms.extend(tool.hashed_name.iter().map(|name| name.to_string()));
            forms.extend(tool.entry_names.iter().map(|name| name.to_string()));
            // Some clients see shorter names.
            let too_long = limits.iter().filter(|limit| tool.exposed.len() > **limit);
            forms.extend(too_long.map(|limit| tool.shortened(*limit)));
            // Names of the gateway's own tools never lead to another tool, even for callers who may not use them.
            let is_free = |form: &String| tool.server.is_own() || !RESERVED.contains(&form.as_str());
            for form in forms.into_iter().filter(is_free) {
                let entry = spellings.entry(form).or_default();
                if !entry.iter().any(|other| Arc::ptr_eq(other, tool)) {
                    entry.push((*tool).clone());
                }
            }
        }
        add_shortened(&tools, &mut spellings);
        spellings
    }
}

/// Adds the spellings without a repeated server name. A tool that has such a spelling otherwise keeps it for itself.
fn add_shortened(tools: &[&Arc<Tool>], spellings: &mut HashMap<String, Vec<Arc<Tool>>>) {
    let mut added: HashMap<String, Vec<Arc<Tool>>> = HashMap::new();
    for tool in tools.iter().filter(|tool| !tool.server.is_virtual() && !tool.server.is_own()) {
        for form in spelling::shortened(tool.server.name.as_str(), &tool.name) {
            if !RESERVED.contains(&form.as_str()) && !spellings.contains_key(&form) {
                added.entry(form).or_default().push((*tool).clone());
            }
        }
    }
    spellings.extend(added);
}
