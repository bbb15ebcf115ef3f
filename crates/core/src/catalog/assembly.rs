//! Assembly: combines what servers offer with the manifests into the catalog that callers see.
//!
//! The admitted parts stay unchanged; when either side changes, the whole catalog is assembled again. A part whose
//! content is the same keeps its `Arc`, so that clients are not notified of a change.

mod parts;
mod shared_names;
mod targets;

pub(super) use parts::{replace_tools, virtual_part};

use super::admission::ServerCatalog;
use super::candidate::SetAside;
use super::naming::{Naming, NamingStyle};
use super::overlay::{OverlayInput, is_bound, overlay};
use super::patterns::ToolGate;
use super::spelling;
use super::tool::{Backing, Tool};
use super::virtual_tool::{VirtualToolInput, build, server_of};
use crate::lint::reserved;
use crate::manifest::{Manifest, ManifestScope, ProviderKind};
use crate::names::ServerName;
use crate::schema::Coverage;
use crate::server::ServerEntry;
use parts::{is_same, with_tools};
use shared_names::share_names;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The parts of a catalog, by server.
pub type CatalogParts = BTreeMap<ServerName, Arc<ServerCatalog>>;

/// The parts of a catalog, and the outcome of each manifest entry.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The parts.
    pub parts: CatalogParts,
    /// The outcomes of the entries, in their order.
    pub entries: Vec<EntryReport>,
}

/// One manifest entry and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryReport {
    /// The entry's name.
    pub name: String,
    /// Its scope.
    pub scope: ManifestScope,
    /// The file and position that define it.
    pub origin: String,
    /// Its outcome.
    pub outcome: EntryOutcome,
}

/// The outcome of a manifest entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryOutcome {
    /// It overrides fields of a discovered tool.
    Overlay {
        /// The tool's canonical id.
        tool: String,
    },
    /// It replaces a discovered tool of the same name with other providers.
    Replacement {
        /// The canonical id of the tool that can no longer be reached.
        tool: String,
    },
    /// It is a virtual tool.
    Virtual,
    /// It waits for a tool that no server has listed yet.
    Waiting,
    /// It could not be used; the reason.
    SetAside(String),
}

/// The position of a tool: its server, and its index among the server's tools.
type ToolPosition = (ServerName, usize);

/// The inputs of [`assemble`].
#[derive(Clone, Copy)]
pub struct AssemblyInput<'a> {
    /// The admitted parts of all servers.
    pub base: &'a CatalogParts,
    /// The entries of all manifests.
    pub manifests: &'a [Manifest],
    /// How tools are named.
    pub naming: &'a Naming,
    /// Which tools enter the catalog.
    pub gate: &'a ToolGate,
    /// Looks up a configured server, whether or not it has listed its tools.
    pub configured: &'a dyn Fn(&ServerName) -> Option<Arc<ServerEntry>>,
    /// The server that owns an exposed name, even if it does not list the tool at the moment.
    pub owner: &'a dyn Fn(&str) -> Option<ServerName>,
    /// The parts of the previous assembly.
    pub earlier: &'a CatalogParts,
}

/// Assembles a catalog.
pub fn assemble(input: AssemblyInput<'_>) -> Assembly {
    let gated = (!input.gate.is_open()).then(|| gated(&input));
    let input = AssemblyInput { base: gated.as_ref().unwrap_or(input.base), ..input };
    let mut assembly = match input.manifests.is_empty() {
        true => Assembly { parts: input.base.clone(), entries: Vec::new() },
        false => Assembler::new(input).run(),
    };
    share_names(&input, &mut assembly.parts);
    assembly
}

/// The parts without the tools that `allow_tools` and `deny_tools` exclude. They are removed before manifests apply, so
/// that a tool denied under one name cannot be reached under another.
fn gated(input: &AssemblyInput<'_>) -> CatalogParts {
    let mut given: HashMap<(&ServerName, &str), Vec<&str>> = HashMap::new();
    for manifest in input.manifests {
        if let Some(target) = manifest.wrapped() {
            given.entry(target).or_default().push(&manifest.name);
        }
    }
    let part = |(name, part): (&ServerName, &Arc<ServerCatalog>)| {
        let admits = |tool: &&Arc<Tool>| {
            let names = given.get(&(name, &*tool.name)).map(Vec::as_slice).unwrap_or_default();
            input.gate.admits_as(tool, names)
        };
        let tools: Vec<Arc<Tool>> = part.tools.iter().filter(admits).cloned().collect();
        if tools.len() == part.tools.len() {
            return (name.clone(), part.clone());
        }
        (name.clone(), replace_tools(part, tools, input.earlier))
    };
    input.base.iter().map(part).collect()
}

struct Assembler<'a> {
    input: AssemblyInput<'a>,
    exposed: HashMap<&'a str, ToolPosition>,
    /// Discovered tools by the name that repeats their server, if they are exposed under a shorter one. Entries that
    /// were written for the long name still apply.
    long_names: HashMap<String, ToolPosition>,
    /// Discovered tools by the server's own name; `None` if several servers have the name.
    bare: HashMap<&'a str, Option<ToolPosition>>,
    /// The tools that shared entries wrap, by the entry's name.
    wrapped: HashMap<&'a str, (&'a ServerName, &'a str)>,
    outcomes: Vec<EntryOutcome>,
    /// Discovered tools whose name an entry claims for another tool, with their new names.
    renamed: BTreeMap<ToolPosition, String>,
    parts: CatalogParts,
}

impl<'a> Assembler<'a> {
    fn new(input: AssemblyInput<'a>) -> Self {
        let mut exposed = HashMap::new();
        let mut long_names = HashMap::new();
        let mut bare: HashMap<&str, Option<ToolPosition>> = HashMap::new();
        let has_providers = |manifest: &&Manifest| !manifest.providers.is_empty();
        let served: HashSet<&str> =
            input.manifests.iter().filter(has_providers).map(|manifest| manifest.name.as_str()).collect();
        // An entry without providers may also belong to a virtual tool of its name.
        let unbound: HashSet<&str> = input
            .manifests
            .iter()
            .map(|manifest| manifest.name.as_str())
            .filter(|name| !served.contains(name))
            .collect();
        for (name, part) in input.base {
            for (index, tool) in part.tools.iter().enumerate() {
                exposed.entry(&*tool.exposed).or_insert((name.clone(), index));
                if spelling::begins_with_server(name.as_str(), &tool.name) {
                    long_names.insert(input.naming.expose(name.as_str(), &tool.name), (name.clone(), index));
                }
                if !part.entry.is_own() && unbound.contains(&*tool.name) {
                    let position = (name.clone(), index);
                    bare.entry(&*tool.name).and_modify(|known| *known = None).or_insert(Some(position));
                }
            }
        }
        let shared = input.manifests.iter().filter(|manifest| manifest.scope == ManifestScope::Shared);
        let wrapped = shared.filter_map(|manifest| Some((manifest.name.as_str(), manifest.wrapped()?)));
        let wrapped = wrapped.collect();
        let outcomes = vec![EntryOutcome::Waiting; input.manifests.len()];
        let parts = input.base.clone();
        Self { input, exposed, long_names, bare, wrapped, outcomes, renamed: BTreeMap::new(), parts }
    }

    fn run(mut self) -> Assembly {
        let mut over: BTreeMap<ToolPosition, Vec<usize>> = BTreeMap::new();
        let mut alone: BTreeMap<&'a str, Vec<usize>> = BTreeMap::new();
        for (index, manifest) in self.input.manifests.iter().enumerate() {
            if manifest.takes_foreign_id() {
                let reason = "its name is the id of a server's tool, which is not among its providers";
                self.outcomes[index] = EntryOutcome::SetAside(reason.to_owned());
                continue;
            }
            match self.target(manifest) {
                Some(position) => over.entry(position).or_default().push(index),
                None if manifest.wrapped().is_some() => {}
                None if manifest.providers.is_empty() && self.bare.get(&*manifest.name) == Some(&None) => {
                    let reason =
                        "several servers have a tool of this name; name one as `mcp.<server>.<tool>`";
                    self.outcomes[index] = EntryOutcome::SetAside(reason.to_owned());
                }
                None => alone.entry(&manifest.name).or_default().push(index),
            }
        }
        self.rename_claimed(&over, &alone);
        for position in self.renamed.keys() {
            over.entry(position.clone()).or_default();
        }
        self.apply_overlays(over);
        self.build_virtual(&alone);
        let manifests = self.input.manifests.iter().zip(self.outcomes);
        let entries = manifests.map(|(manifest, outcome)| EntryReport {
            name: manifest.name.clone(),
            scope: manifest.scope.clone(),
            origin: manifest.origin.clone(),
            outcome,
        });
        Assembly { entries: entries.collect(), parts: self.parts }
    }

    /// Renames discovered tools whose name the operator gives to another tool, whichever server was first.
    fn rename_claimed(
        &mut self,
        over: &BTreeMap<ToolPosition, Vec<usize>>,
        alone: &BTreeMap<&'a str, Vec<usize>>,
    ) {
        let all = self.input.manifests;
        let wrapped = over
            .iter()
            .flat_map(|(position, entries)| entries.iter().map(move |index| (Some(position), *index)));
        let virtual_ones = alone.values().flatten().map(|index| (None, *index));
        for (target, index) in
            wrapped.chain(virtual_ones).filter(|(_, index)| !all[*index].providers.is_empty())
        {
            let naming = Naming { style: NamingStyle::Bare, ..*self.input.naming };
            let clean = naming.expose("", &all[index].name);
            let Some(position) = self.exposed.get(&*clean).filter(|position| Some(*position) != target)
            else {
                continue;
            };
            let part = &self.input.base[&position.0];
            if !part.entry.is_own() {
                let other = naming.suffixed(&clean, position.0.as_str(), &part.tools[position.1].name);
                self.renamed.insert(position.clone(), other);
            }
        }
    }

    /// Rebuilds the parts of servers that entries refer to.
    fn apply_overlays(&mut self, over: BTreeMap<ToolPosition, Vec<usize>>) {
        let mut touched: BTreeMap<ServerName, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
        for ((server, tool), entries) in over {
            touched.entry(server).or_default().insert(tool, entries);
        }
        for (server, overlays) in touched {
            let base = self.input.base[&server].clone();
            let mut tools = Vec::with_capacity(base.tools.len() + overlays.len());
            let mut notes = Vec::new();
            for (index, tool) in base.tools.iter().enumerate() {
                match overlays.get(&index) {
                    Some(entries) => self.versions(tool, entries, &mut tools, &mut notes),
                    None => tools.push(tool.clone()),
                }
            }
            tools.retain(|tool| self.input.gate.admits(tool));
            self.put(with_tools(&base, tools, notes));
        }
    }

    /// Builds the versions of one tool: the shared one, and one for each persona that has its own entries.
    fn versions(
        &mut self,
        tool: &Arc<Tool>,
        entries: &[usize],
        tools: &mut Vec<Arc<Tool>>,
        notes: &mut Vec<SetAside>,
    ) {
        let all = self.input.manifests;
        if let Some(other) = self.new_name(tool) {
            let reason = format!(
                "a manifest gives its name `{}` to another tool, so it is offered as `{other}`",
                tool.exposed
            );
            notes.push(SetAside { kind: "name", name: tool.name.to_string(), reason });
        }
        let personas: BTreeSet<&str> = entries.iter().filter_map(|index| persona_of(&all[*index])).collect();
        let shared = entries.iter().copied().filter(|index| all[*index].scope == ManifestScope::Shared);
        let shared = self.first_of(tool, shared.collect());
        let mut shadowing: Vec<Box<str>> = Vec::new();
        let mut versions = Vec::new();
        for persona in personas {
            let own = entries.iter().copied().filter(|index| persona_of(&all[*index]) == Some(persona));
            let own = self.first_of(tool, own.collect());
            let layers: Vec<usize> = shared.iter().chain(&own).copied().collect();
            if let Some(version) = self.version(tool, &layers, &own, Vec::new(), notes) {
                shadowing.push(persona.into());
                versions.push(version);
            }
        }
        let plain = shared.is_empty() && shadowing.is_empty() && self.new_name(tool).is_none();
        let first = if plain { None } else { self.version(tool, &shared, &shared, shadowing, notes) };
        tools.push(first.unwrap_or_else(|| tool.clone()));
        tools.append(&mut versions);
    }

    /// Keeps the first of several entries for one tool, and sets the others aside.
    fn first_of(&mut self, tool: &Tool, mut entries: Vec<usize>) -> Vec<usize> {
        let later = if entries.len() > 1 { entries.split_off(1) } else { Vec::new() };
        for index in later {
            let Manifest { name, origin, .. } = &self.input.manifests[entries[0]];
            let reason = format!("`{name}` at {origin} refers to the same tool, {}", tool.canonical());
            self.outcomes[index] = EntryOutcome::SetAside(reason);
        }
        entries
    }

    /// Applies entries to a tool and records the outcome of those in `reported`.
    fn version(
        &mut self,
        tool: &Arc<Tool>,
        layers: &[usize],
        reported: &[usize],
        shadowed_for: Vec<Box<str>>,
        notes: &mut Vec<SetAside>,
    ) -> Option<Arc<Tool>> {
        let entries: Vec<&Manifest> = layers.iter().map(|index| &self.input.manifests[*index]).collect();
        let renames = |entry: &Manifest| {
            is_bound(entry, tool) || (entry.wrapped().is_some() && !has_name(tool, &entry.name))
        };
        let renamed = entries.iter().rev().find(|entry| renames(entry));
        let exposed = renamed.map(|entry| self.free_name(&entry.name));
        let exposed =
            exposed.or_else(|| self.new_name(tool).cloned()).unwrap_or_else(|| tool.exposed.to_string());
        let backing = |entry: &Manifest| self.backing(entry, Some(tool));
        let laying = OverlayInput { entries: &entries, exposed: &exposed, backing: &backing, shadowed_for };
        let (outcome, version) = match overlay(tool, laying) {
            Ok((version, coverage)) => {
                note_coverage(notes, &version, &coverage);
                let replaced = version.bounds.as_ref().is_some_and(|bounds| {
                    !bounds.backing.is_empty() && !bounds.backing.contains(&Backing::Itself)
                });
                let id = tool.canonical();
                let outcome = if replaced {
                    EntryOutcome::Replacement { tool: id }
                } else {
                    EntryOutcome::Overlay { tool: id }
                };
                (outcome, Some(Arc::new(version)))
            }
            Err(reason) => (EntryOutcome::SetAside(reason), None),
        };
        reported.iter().for_each(|index| self.outcomes[*index] = outcome.clone());
        version
    }

    /// The new name of a tool whose name was given to another tool.
    fn new_name(&self, tool: &Tool) -> Option<&String> {
        let position = self.exposed.get(&*tool.exposed).filter(|_| !self.renamed.is_empty())?;
        self.renamed.get(position).filter(|_| position.0 == tool.server.name)
    }

    /// A valid exposed name, with a hash if the gateway's own tools use the plain one.
    fn free_name(&self, name: &str) -> String {
        let naming = Naming { style: NamingStyle::Bare, ..*self.input.naming };
        let clean = naming.expose("", name);
        let is_ours = |position: &ToolPosition| self.input.base[&position.0].entry.is_own();
        if reserved(&clean).is_some() || self.exposed.get(&*clean).is_some_and(is_ours) {
            naming.suffixed(&clean, "", name)
        } else {
            clean
        }
    }

    /// Builds the parts of virtual tools.
    fn build_virtual(&mut self, alone: &BTreeMap<&'a str, Vec<usize>>) {
        let all = self.input.manifests;
        let mut made: BTreeMap<ManifestScope, Vec<Arc<Tool>>> = BTreeMap::new();
        let mut notes = Vec::new();
        let mut servers: BTreeMap<ManifestScope, Arc<ServerEntry>> = BTreeMap::new();
        for entries in alone.values() {
            let shared = entries.iter().copied().find(|index| {
                all[*index].scope == ManifestScope::Shared && !all[*index].providers.is_empty()
            });
            let mut shadowing: Vec<Box<str>> = Vec::new();
            // Personas first: the shared version is not for personas that have their own.
            let own = entries.iter().copied().filter(|index| Some(*index) != shared);
            for index in own.chain(shared) {
                let entry = &all[index];
                let layers: Vec<&Manifest> = match (shared, entry.providers.is_empty()) {
                    (_, false) => vec![entry],
                    (Some(shared), true) if entry.scope != ManifestScope::Shared => vec![&all[shared], entry],
                    _ => continue,
                };
                let Some(server) =
                    servers.get(&entry.scope).cloned().or_else(|| server_of(&entry.scope).map(Arc::new))
                else {
                    continue;
                };
                servers.insert(entry.scope.clone(), server.clone());
                let exposed = self.free_name(&entry.name);
                let shadowed_for = if Some(index) == shared { shadowing.clone() } else { Vec::new() };
                let backing = |entry: &Manifest| self.backing(entry, None);
                let making = VirtualToolInput {
                    server: &server,
                    entries: &layers,
                    exposed: &exposed,
                    backing: &backing,
                    shadowed_for,
                };
                self.outcomes[index] = match build(making) {
                    Ok((tool, _)) if !self.input.gate.admits(&tool) => {
                        // A persona whose version is excluded does not get the shared version instead.
                        shadowing.extend(persona_of(entry).map(Box::from));
                        EntryOutcome::SetAside("`deny_tools` or `allow_tools` excludes it".into())
                    }
                    Ok((tool, coverage)) => {
                        note_coverage(&mut notes, &tool, &coverage);
                        shadowing.extend(persona_of(entry).map(Box::from));
                        made.entry(entry.scope.clone()).or_default().push(Arc::new(tool));
                        EntryOutcome::Virtual
                    }
                    Err(reason) => EntryOutcome::SetAside(reason),
                };
            }
        }
        for (scope, mut tools) in made {
            let Some(entry) = servers.remove(&scope) else { continue };
            tools.sort_by(|a, b| a.name.cmp(&b.name));
            let of_it = |note: &SetAside| tools.iter().any(|tool| *tool.name == *note.name);
            let (own, rest): (Vec<_>, Vec<_>) = notes.into_iter().partition(of_it);
            notes = rest;
            self.put(virtual_part(entry, tools, own));
        }
    }

    /// The backing of each provider of an entry, by priority.
    fn backing(&self, entry: &Manifest, itself: Option<&Arc<Tool>>) -> Vec<Backing> {
        let mut providers: Vec<_> = entry.providers.iter().collect();
        providers.sort_by_key(|provider| provider.priority);
        let backing = providers.into_iter().map(|provider| match &provider.kind {
            ProviderKind::Mcp { server, tool } => {
                if itself.is_some_and(|own| own.server.name == *server && *own.name == **tool) {
                    return Backing::Itself;
                }
                self.behind(server, tool)
            }
            ProviderKind::Http(_)
            | ProviderKind::Builtin(_)
            | ProviderKind::OpenAi { .. }
            | ProviderKind::Skill(_) => Backing::Open,
            ProviderKind::Unknown(_) => Backing::Missing,
        });
        backing.collect()
    }

    fn behind(&self, server: &ServerName, own: &str) -> Backing {
        // The tools as callers see them, with manifests applied.
        let Some(part) =
            self.parts.get(server).filter(|part| !part.entry.is_own() && !part.entry.is_virtual())
        else {
            return (self.input.configured)(server).map_or(Backing::Missing, Backing::Undiscovered);
        };
        let tools: Vec<Arc<Tool>> = part.tools.iter().filter(|tool| *tool.name == *own).cloned().collect();
        if tools.is_empty() { Backing::Missing } else { Backing::Tools(tools) }
    }

    /// Adds a part; the earlier one if nothing has changed.
    fn put(&mut self, part: ServerCatalog) {
        let name = part.entry.name.clone();
        let earlier = self.input.earlier.get(&name).filter(|earlier| is_same(earlier, &part));
        let part = earlier.cloned().unwrap_or_else(|| Arc::new(part));
        self.parts.insert(name, part);
    }
}

fn persona_of(manifest: &Manifest) -> Option<&str> {
    match &manifest.scope {
        ManifestScope::Shared => None,
        ManifestScope::Persona(name) => Some(name),
    }
}

/// Whether a tool already has a name, so that an entry with that name does not rename it. The server's own name for it
/// is not among these: an operator who writes it wants clients to see it.
fn has_name(tool: &Tool, name: &str) -> bool {
    let server = tool.server.name.as_str();
    *tool.exposed == *name
        || tool.canonical() == name
        || spelling::any_qualified(server, &tool.name, |form| form == name)
}

fn note_coverage(notes: &mut Vec<SetAside>, tool: &Tool, coverage: &Coverage) {
    if *coverage != Coverage::Whole {
        let reason = coverage.to_string();
        notes.push(SetAside { kind: "schema", name: tool.name.to_string(), reason });
    }
}
