//! Assembly: what servers offer and what manifests say, put together into what callers see.
//!
//! What servers offer stays as it was admitted; each time either side changes, the whole is put together
//! anew. Parts that come out as they were before are the very same, so that nobody is told of a change.

use super::admission::{ServerCatalog, SetAside};
use super::bounds::{Backing, Evenness};
use super::naming::{Naming, NamingStyle};
use super::overlay::{Laying, lay};
use super::patterns::Gate;
use super::spelling;
use super::tool::Tool;
use super::virtual_tool::{Making, make, server_of};
use crate::lint::reserved;
use crate::manifest::{Manifest, ProviderKind, Scope};
use crate::names::ServerName;
use crate::schema::Coverage;
use crate::server::ServerEntry;
use bytes::BytesMut;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

/// The parts of a catalog, by server.
pub type Parts = BTreeMap<ServerName, Arc<ServerCatalog>>;

/// A catalog's parts, and what became of each entry of the manifests.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The parts.
    pub parts: Parts,
    /// The entries, in their order.
    pub entries: Vec<EntryStanding>,
}

/// What became of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryStanding {
    /// The entry's name.
    pub name: String,
    /// Whom it is for.
    pub scope: Scope,
    /// Where it is written.
    pub origin: String,
    /// What became of it.
    pub place: EntryPlace,
}

/// What became of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryPlace {
    /// It is laid over a discovered tool.
    Over {
        /// The tool's canonical id.
        tool: String,
    },
    /// It has the name of a discovered tool, and other providers serve it in that tool's place.
    Instead {
        /// The canonical id of the tool that is no longer reached.
        tool: String,
    },
    /// It is a tool of its own.
    Virtual,
    /// It waits for a tool that no server has told of yet.
    Waiting,
    /// It could not be used, and why.
    SetAside(String),
}

/// A tool in the parts: its server and its place among the server's tools.
type Spot = (ServerName, usize);

/// What is needed to put a catalog together.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// What servers offer.
    pub base: &'a Parts,
    /// The entries of all manifests.
    pub manifests: &'a [Manifest],
    /// How tools are named.
    pub naming: &'a Naming,
    /// Which tools enter at all.
    pub gate: &'a Gate,
    /// Configured servers, whether or not they have told what they offer.
    pub configured: &'a dyn Fn(&ServerName) -> Option<Arc<ServerEntry>>,
    /// The parts as they were put together last.
    pub earlier: &'a Parts,
}

/// Puts a catalog together.
pub fn assemble(ground: Ground<'_>) -> Assembly {
    let gated = (!ground.gate.is_open()).then(|| gated(&ground));
    let ground = Ground { base: gated.as_ref().unwrap_or(ground.base), ..ground };
    if ground.manifests.is_empty() {
        return Assembly { parts: ground.base.clone(), entries: Vec::new() };
    }
    Bench::new(ground).work()
}

/// What servers offer, without the tools that do not enter the catalog. They are gone before manifests are looked at:
/// what is denied under one name is not to be had under another.
fn gated(ground: &Ground<'_>) -> Parts {
    let mut given: HashMap<(&ServerName, &str), Vec<&str>> = HashMap::new();
    for manifest in ground.manifests {
        if let Some(target) = manifest.wrapped() {
            given.entry(target).or_default().push(&manifest.name);
        }
    }
    let part = |(name, part): (&ServerName, &Arc<ServerCatalog>)| {
        let admits = |tool: &&Arc<Tool>| {
            let names = given.get(&(name, &*tool.name)).map(Vec::as_slice).unwrap_or_default();
            ground.gate.admits_as(tool, names)
        };
        let tools: Vec<Arc<Tool>> = part.tools.iter().filter(admits).cloned().collect();
        if tools.len() == part.tools.len() {
            return (name.clone(), part.clone());
        }
        let rest = with_tools(part, tools, Vec::new());
        let earlier = ground.earlier.get(name).filter(|earlier| is_same(earlier, &rest));
        (name.clone(), earlier.cloned().unwrap_or_else(|| Arc::new(rest)))
    };
    ground.base.iter().map(part).collect()
}

struct Bench<'a> {
    ground: Ground<'a>,
    exposed: HashMap<&'a str, Spot>,
    places: Vec<EntryPlace>,
    /// Discovered tools whose name an entry claims for another tool, and what they are called instead.
    renamed: BTreeMap<Spot, String>,
    parts: Parts,
}

impl<'a> Bench<'a> {
    fn new(ground: Ground<'a>) -> Self {
        let mut exposed = HashMap::new();
        for (name, part) in ground.base {
            for (index, tool) in part.tools.iter().enumerate() {
                exposed.entry(&*tool.exposed).or_insert((name.clone(), index));
            }
        }
        let places = vec![EntryPlace::Waiting; ground.manifests.len()];
        Self { ground, exposed, places, renamed: BTreeMap::new(), parts: ground.base.clone() }
    }

    fn work(mut self) -> Assembly {
        let mut over: BTreeMap<Spot, Vec<usize>> = BTreeMap::new();
        let mut alone: BTreeMap<&'a str, Vec<usize>> = BTreeMap::new();
        for (index, manifest) in self.ground.manifests.iter().enumerate() {
            if manifest.takes_foreign_id() {
                let reason = "its name is the id of a server's tool, which is not among its providers";
                self.places[index] = EntryPlace::SetAside(reason.to_owned());
                continue;
            }
            match self.target(manifest) {
                Some(spot) => over.entry(spot).or_default().push(index),
                None if manifest.wrapped().is_some() => {}
                None => alone.entry(&manifest.name).or_default().push(index),
            }
        }
        self.give_way(&over, &alone);
        for spot in self.renamed.keys() {
            over.entry(spot.clone()).or_default();
        }
        self.lay_over(over);
        self.stand_alone(&alone);
        let manifests = self.ground.manifests.iter().zip(self.places);
        let entries = manifests.map(|(manifest, place)| EntryStanding {
            name: manifest.name.clone(),
            scope: manifest.scope.clone(),
            origin: manifest.origin.clone(),
            place,
        });
        Assembly { entries: entries.collect(), parts: self.parts }
    }

    /// The discovered tool that an entry speaks of.
    fn target(&self, manifest: &Manifest) -> Option<Spot> {
        if let Some((server, tool)) = manifest.wrapped() {
            return self.find(server, tool);
        }
        let spot = self.named(&manifest.name)?;
        // Where names have no prefix any server could take the name of a tool that others serve.
        let is_safe = manifest.providers.is_empty()
            || self.ground.naming.style != NamingStyle::Bare
            || manifest.served_by().any(|(server, _)| *server == spot.0);
        is_safe.then_some(spot)
    }

    fn named(&self, name: &str) -> Option<Spot> {
        let discovered = |spot: &Spot| !self.ground.base[&spot.0].entry.is_own();
        if let Some(spot) = self.exposed.get(name).filter(|spot| discovered(spot)) {
            return Some(spot.clone());
        }
        let canonical = name.strip_prefix("mcp.")?;
        let mut named = self.ground.base.keys().filter_map(|server| {
            let own = canonical.strip_prefix(server.as_str())?.strip_prefix('.')?;
            self.find(server, own).filter(discovered)
        });
        // Servers `a` and `a.b` may have tools of the same id: then it is ambiguous which is meant.
        named.next().filter(|_| named.next().is_none())
    }

    fn find(&self, server: &ServerName, own: &str) -> Option<Spot> {
        let part = self.ground.base.get(server).filter(|part| !part.entry.is_own())?;
        let index = part.tools.binary_search_by(|tool| (*tool.name).cmp(own)).ok()?;
        Some((server.clone(), index))
    }

    /// A name that the operator gives to one tool is no other tool's, whichever server came first.
    fn give_way(&mut self, over: &BTreeMap<Spot, Vec<usize>>, alone: &BTreeMap<&'a str, Vec<usize>>) {
        let all = self.ground.manifests;
        let wrapped =
            over.iter().flat_map(|(spot, entries)| entries.iter().map(move |index| (Some(spot), *index)));
        let virtual_ones = alone.values().flatten().map(|index| (None, *index));
        for (target, index) in
            wrapped.chain(virtual_ones).filter(|(_, index)| !all[*index].providers.is_empty())
        {
            let naming = Naming { style: NamingStyle::Bare, ..*self.ground.naming };
            let clean = naming.expose("", &all[index].name);
            let Some(spot) = self.exposed.get(&*clean).filter(|spot| Some(*spot) != target) else { continue };
            let part = &self.ground.base[&spot.0];
            if !part.entry.is_own() {
                let other = naming.suffixed(&clean, spot.0.as_str(), &part.tools[spot.1].name);
                self.renamed.insert(spot.clone(), other);
            }
        }
    }

    /// Builds the parts of servers that entries speak of.
    fn lay_over(&mut self, over: BTreeMap<Spot, Vec<usize>>) {
        let mut touched: BTreeMap<ServerName, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
        for ((server, tool), entries) in over {
            touched.entry(server).or_default().insert(tool, entries);
        }
        for (server, overlays) in touched {
            let base = self.ground.base[&server].clone();
            let mut tools = Vec::with_capacity(base.tools.len() + overlays.len());
            let mut notes = Vec::new();
            for (index, tool) in base.tools.iter().enumerate() {
                match overlays.get(&index) {
                    Some(entries) => self.versions(tool, entries, &mut tools, &mut notes),
                    None => tools.push(tool.clone()),
                }
            }
            tools.retain(|tool| self.ground.gate.admits(tool));
            self.put(with_tools(&base, tools, notes));
        }
    }

    /// The versions of one tool: one for everybody, and one for each persona that has entries of its own.
    fn versions(
        &mut self,
        tool: &Arc<Tool>,
        entries: &[usize],
        tools: &mut Vec<Arc<Tool>>,
        notes: &mut Vec<SetAside>,
    ) {
        let all = self.ground.manifests;
        if let Some(other) = self.new_name(tool) {
            let reason = format!(
                "a manifest gives its name `{}` to another tool, so it is offered as `{other}`",
                tool.exposed
            );
            notes.push(SetAside { kind: "name", name: tool.name.to_string(), reason });
        }
        let personas: BTreeSet<&str> = entries.iter().filter_map(|index| persona_of(&all[*index])).collect();
        let shared = entries.iter().copied().filter(|index| all[*index].scope == Scope::Shared);
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

    /// Of several entries for one tool the first counts, and the others are told so.
    fn first_of(&mut self, tool: &Tool, mut entries: Vec<usize>) -> Vec<usize> {
        let later = if entries.len() > 1 { entries.split_off(1) } else { Vec::new() };
        for index in later {
            let Manifest { name, origin, .. } = &self.ground.manifests[entries[0]];
            let reason = format!("`{name}` at {origin} speaks of the same tool, {}", tool.canonical());
            self.places[index] = EntryPlace::SetAside(reason);
        }
        entries
    }

    /// Lays entries over a tool and notes what became of those that are told of here.
    fn version(
        &mut self,
        tool: &Arc<Tool>,
        layers: &[usize],
        told: &[usize],
        shadowed_for: Vec<Box<str>>,
        notes: &mut Vec<SetAside>,
    ) -> Option<Arc<Tool>> {
        let entries: Vec<&Manifest> = layers.iter().map(|index| &self.ground.manifests[*index]).collect();
        let renamed =
            entries.iter().rev().find(|entry| entry.wrapped().is_some() && !goes_by(tool, &entry.name));
        let exposed = renamed.map(|entry| self.free_name(&entry.name));
        let exposed =
            exposed.or_else(|| self.new_name(tool).cloned()).unwrap_or_else(|| tool.exposed.to_string());
        let backing = |entry: &Manifest| self.backing(entry, Some(tool));
        let laying = Laying { entries: &entries, exposed: &exposed, backing: &backing, shadowed_for };
        let (place, version) = match lay(tool, laying) {
            Ok((version, coverage)) => {
                note_coverage(notes, &version, &coverage);
                let replaced = version.bounds.as_ref().is_some_and(|bounds| {
                    !bounds.backing.is_empty() && !bounds.backing.contains(&Backing::Itself)
                });
                let id = tool.canonical();
                let place =
                    if replaced { EntryPlace::Instead { tool: id } } else { EntryPlace::Over { tool: id } };
                (place, Some(Arc::new(version)))
            }
            Err(reason) => (EntryPlace::SetAside(reason), None),
        };
        told.iter().for_each(|index| self.places[*index] = place.clone());
        version
    }

    /// What a tool is called since its name was given to another.
    fn new_name(&self, tool: &Tool) -> Option<&String> {
        let spot = self.exposed.get(&*tool.exposed).filter(|_| !self.renamed.is_empty())?;
        self.renamed.get(spot).filter(|_| spot.0 == tool.server.name)
    }

    /// A name as clients take it; with a hash where the gateway itself has it.
    fn free_name(&self, name: &str) -> String {
        let naming = Naming { style: NamingStyle::Bare, ..*self.ground.naming };
        let clean = naming.expose("", name);
        let is_ours = |spot: &Spot| self.ground.base[&spot.0].entry.is_own();
        if reserved(&clean).is_some() || self.exposed.get(&*clean).is_some_and(is_ours) {
            naming.suffixed(&clean, "", name)
        } else {
            clean
        }
    }

    /// Builds the parts of tools that stand alone.
    fn stand_alone(&mut self, alone: &BTreeMap<&'a str, Vec<usize>>) {
        let all = self.ground.manifests;
        let mut made: BTreeMap<Scope, Vec<Arc<Tool>>> = BTreeMap::new();
        let mut notes = Vec::new();
        let mut servers: BTreeMap<Scope, Arc<ServerEntry>> = BTreeMap::new();
        for entries in alone.values() {
            let shared = entries
                .iter()
                .copied()
                .find(|index| all[*index].scope == Scope::Shared && !all[*index].providers.is_empty());
            let mut shadowing: Vec<Box<str>> = Vec::new();
            // Personas first: what they have of their own, the shared one is not for.
            let own = entries.iter().copied().filter(|index| Some(*index) != shared);
            for index in own.chain(shared) {
                let entry = &all[index];
                let layers: Vec<&Manifest> = match (shared, entry.providers.is_empty()) {
                    (_, false) => vec![entry],
                    (Some(shared), true) if entry.scope != Scope::Shared => vec![&all[shared], entry],
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
                let making = Making {
                    server: &server,
                    entries: &layers,
                    exposed: &exposed,
                    backing: &backing,
                    shadowed_for,
                };
                self.places[index] = match make(making) {
                    Ok((tool, _)) if !self.ground.gate.admits(&tool) => {
                        // A persona whose version is kept out does not get the shared one instead.
                        shadowing.extend(persona_of(entry).map(Box::from));
                        EntryPlace::SetAside("`deny_tools` or `allow_tools` keeps it out".into())
                    }
                    Ok((tool, coverage)) => {
                        note_coverage(&mut notes, &tool, &coverage);
                        shadowing.extend(persona_of(entry).map(Box::from));
                        made.entry(entry.scope.clone()).or_default().push(Arc::new(tool));
                        EntryPlace::Virtual
                    }
                    Err(reason) => EntryPlace::SetAside(reason),
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

    /// Who stands behind each provider of an entry, in the order of their priority.
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
            ProviderKind::Http(_) | ProviderKind::Builtin(_) | ProviderKind::OpenAi { .. } => Backing::Open,
            ProviderKind::Unknown(_) => Backing::Nobody,
        });
        backing.collect()
    }

    fn behind(&self, server: &ServerName, own: &str) -> Backing {
        // As callers see them, manifests laid over them included.
        let Some(part) =
            self.parts.get(server).filter(|part| !part.entry.is_own() && !part.entry.is_virtual())
        else {
            return (self.ground.configured)(server).map_or(Backing::Nobody, Backing::Unheard);
        };
        let tools: Vec<Arc<Tool>> = part.tools.iter().filter(|tool| *tool.name == *own).cloned().collect();
        if tools.is_empty() { Backing::Nobody } else { Backing::Tools(tools) }
    }

    /// Takes a part in: the one that was there before, where nothing about it is new.
    fn put(&mut self, part: ServerCatalog) {
        let name = part.entry.name.clone();
        let earlier = self.ground.earlier.get(&name).filter(|earlier| is_same(earlier, &part));
        let part = earlier.cloned().unwrap_or_else(|| Arc::new(part));
        self.parts.insert(name, part);
    }
}

fn persona_of(manifest: &Manifest) -> Option<&str> {
    match &manifest.scope {
        Scope::Shared => None,
        Scope::Persona(name) => Some(name),
    }
}

/// Whether a tool is known by a name already, so that no entry gives it another.
fn goes_by(tool: &Tool, name: &str) -> bool {
    *tool.exposed == *name
        || tool.canonical() == name
        || spelling::all(tool.server.name.as_str(), &tool.name).iter().any(|form| form == name)
}

fn note_coverage(notes: &mut Vec<SetAside>, tool: &Tool, coverage: &Coverage) {
    if *coverage != Coverage::Whole {
        let reason = coverage.to_string();
        notes.push(SetAside { kind: "schema", name: tool.name.to_string(), reason });
    }
}

fn with_tools(base: &ServerCatalog, tools: Vec<Arc<Tool>>, mut notes: Vec<SetAside>) -> ServerCatalog {
    let mut set_aside = base.set_aside.clone();
    set_aside.append(&mut notes);
    ServerCatalog {
        entry: base.entry.clone(),
        evenness: Evenness::of(&tools),
        tools_text: joined(&tools),
        tools,
        prompts: base.prompts.clone(),
        resources: base.resources.clone(),
        templates: base.templates.clone(),
        capabilities: base.capabilities.clone(),
        instructions: base.instructions.clone(),
        set_aside,
        quarantined: base.quarantined.clone(),
        reading: OnceLock::new(),
    }
}

fn virtual_part(entry: Arc<ServerEntry>, tools: Vec<Arc<Tool>>, set_aside: Vec<SetAside>) -> ServerCatalog {
    ServerCatalog {
        entry,
        evenness: Evenness::of(&tools),
        tools_text: joined(&tools),
        tools,
        prompts: Vec::new(),
        resources: Vec::new(),
        templates: Vec::new(),
        capabilities: None,
        instructions: None,
        set_aside,
        quarantined: Vec::new(),
        reading: OnceLock::new(),
    }
}

fn joined(tools: &[Arc<Tool>]) -> bytes::Bytes {
    let size = tools.iter().map(|tool| tool.definition.as_bytes().len() + 1).sum();
    let mut text = BytesMut::with_capacity(size);
    for tool in tools {
        if !text.is_empty() {
            text.extend_from_slice(b",");
        }
        text.extend_from_slice(tool.definition.as_bytes());
    }
    text.freeze()
}

/// Whether two parts are the same to everybody who could look at them.
fn is_same(earlier: &ServerCatalog, part: &ServerCatalog) -> bool {
    let same_tool = |a: &Arc<Tool>, b: &Arc<Tool>| {
        Arc::ptr_eq(a, b)
            || (a.name == b.name
                && a.exposed == b.exposed
                && a.definition == b.definition
                && a.terms == b.terms
                && a.bounds == b.bounds
                && a.injected == b.injected
                && a.needs_approval == b.needs_approval
                && match (&a.under, &b.under) {
                    (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                    (None, None) => true,
                    _ => false,
                })
    };
    let same_offers = |a: &[super::Offer], b: &[super::Offer]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.definition == b.definition)
    };
    earlier.entry == part.entry
        && earlier.tools.len() == part.tools.len()
        && earlier.tools.iter().zip(&part.tools).all(|(a, b)| same_tool(a, b))
        && same_offers(&earlier.prompts, &part.prompts)
        && same_offers(&earlier.resources, &part.resources)
        && same_offers(&earlier.templates, &part.templates)
        && earlier.capabilities == part.capabilities
        && earlier.instructions == part.instructions
        && earlier.set_aside == part.set_aside
        && earlier.quarantined == part.quarantined
}
