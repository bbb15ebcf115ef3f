//! Admission: turns what a server lists into its part of the catalog. A bad definition affects only itself.

use super::candidate::{AdmissionContext, SetAside, ToolCandidate, write_tools};
use super::derived::DerivedData;
use super::filter::ServerToolFilter;
use super::hidden::{InjectedArguments, ParameterHider, SchemaTooLarge};
use super::naming::Naming;
use super::quarantine::{Quarantined, quarantine};
use super::spelling;
use super::tool::{CatalogItem, Discovery, Tool, ToolAccess};
use crate::json::{Member, RawJson, nests_deeper};
use crate::lint::{find_hidden, misleading_letters, reserved, suspicious, visible};
use crate::schema::{Coverage, Patterns, survey};
use crate::server::ServerEntry;
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The maximum number of tools of one server.
pub const MAX_TOOLS: usize = 20_000;
/// How many tools over the limit are reported by name.
const NAMED_SURPLUS: usize = 20;
/// The maximum size of a definition.
pub const MAX_DEFINITION_BYTES: usize = 1024 * 1024;
/// The maximum nesting depth of a definition. Clients whose parser stops at 128 levels could not read a list with a
/// deeper one.
pub const MAX_DEFINITION_DEPTH: usize = 100;

/// One server's part of the catalog.
#[derive(Debug)]
pub struct ServerCatalog {
    /// The server.
    pub entry: Arc<ServerEntry>,
    /// Its tools, sorted by the server's own names.
    pub tools: Vec<Arc<Tool>>,
    /// The definitions of all its tools, joined by commas, ready to be sent in a list.
    pub tools_text: Bytes,
    /// Its prompts.
    pub prompts: Vec<CatalogItem>,
    /// Its resources.
    pub resources: Vec<CatalogItem>,
    /// Its resource templates.
    pub templates: Vec<CatalogItem>,
    /// The server's capabilities.
    pub capabilities: Option<RawJson>,
    /// Its instructions for models.
    pub instructions: Option<String>,
    /// Definitions that were not admitted as sent.
    pub set_aside: Vec<SetAside>,
    /// Tools that are hidden and cannot be called until an administrator releases them.
    pub quarantined: Vec<Quarantined>,
    /// Whether a caller who may use the server may use all of its tools.
    pub tool_access: ToolAccess,
    /// Data that another crate derives from this part, such as the search index of its tools.
    pub derived: DerivedData,
}

impl ServerCatalog {
    /// The number of its tools. Versions for different callers are one tool.
    pub fn tool_count(&self) -> usize {
        self.tools.chunk_by(|one, next| one.name == next.name).count()
    }
}

/// Builds a server's part of the catalog with default limits and no releases. `taken` reports the names other servers
/// already use.
pub fn admit(
    entry: &Arc<ServerEntry>,
    discovery: &Discovery,
    naming: &Naming,
    taken: &dyn Fn(&str) -> bool,
) -> ServerCatalog {
    let by = AdmissionContext { naming, taken, known: &|_| None, released: &|_| false, max_tools: MAX_TOOLS };
    admit_by(entry, discovery, by)
}

/// Builds a server's part of the catalog.
pub fn admit_by(entry: &Arc<ServerEntry>, discovery: &Discovery, by: AdmissionContext<'_>) -> ServerCatalog {
    let mut set_aside = Vec::new();
    for (list, reason) in &discovery.cut_short {
        set_aside.push(SetAside { kind: "list", name: list.clone(), reason: reason.clone() });
    }
    let naming = by.naming;
    let (tools, tools_text, quarantined) = admit_tools(entry, &discovery.tools, by, &mut set_aside);
    let mut offers = |kind, list: &[RawJson], key, rename: &dyn Fn(&str) -> String| {
        admit_offers(entry, kind, list, key, rename, &mut set_aside)
    };
    let prompts =
        offers("prompt", &discovery.prompts, "name", &|own| naming.expose(entry.name.as_str(), own));
    let same = |own: &str| own.to_owned();
    let resources = offers("resource", &discovery.resources, "uri", &same);
    let templates = offers("template", &discovery.templates, "uriTemplate", &same);
    let instructions = admit_instructions(discovery.instructions.as_deref(), &mut set_aside);
    ServerCatalog {
        entry: entry.clone(),
        tool_access: ToolAccess::of(&tools),
        tools,
        tools_text,
        prompts,
        resources,
        templates,
        capabilities: discovery.capabilities.clone(),
        instructions,
        set_aside,
        quarantined,
        derived: DerivedData::default(),
    }
}

fn admit_tools(
    entry: &Arc<ServerEntry>,
    definitions: &[RawJson],
    by: AdmissionContext<'_>,
    set_aside: &mut Vec<SetAside>,
) -> (Vec<Arc<Tool>>, Bytes, Vec<Quarantined>) {
    let filter = ServerToolFilter::of(entry);
    let hiding = ParameterHider::of(&entry.inject);
    let mut patterns = Patterns::default();
    let mut candidates = Vec::with_capacity(definitions.len().min(MAX_TOOLS));
    let mut seen = HashSet::new();
    let mut surplus = Vec::new();
    for source in definitions.iter().take(MAX_TOOLS) {
        match read_tool(source) {
            Ok((own, _)) if !filter.admits(&own) => {}
            Ok((own, _)) if !seen.insert(own.clone()) => {
                set_aside.push(SetAside {
                    kind: "tool",
                    name: own,
                    reason: "the server lists this name twice".into(),
                });
            }
            Ok((own, _)) if candidates.len() >= by.max_tools => surplus.push(own),
            Ok((own, mut members)) => match make_public(&mut members, &hiding, &mut patterns) {
                Ok((injected, coverage)) => {
                    if coverage != Coverage::Whole {
                        let reason = coverage.to_string();
                        set_aside.push(SetAside { kind: "schema", name: own.clone(), reason });
                    }
                    let needs_approval = filter.asks_about(&own);
                    candidates.push(ToolCandidate { own, members, source, injected, needs_approval });
                }
                Err(reason) => set_aside.push(SetAside { kind: "tool", name: own, reason }),
            },
            Err((name, reason)) => set_aside.push(SetAside { kind: "tool", name, reason }),
        }
    }
    note_surplus(surplus, by.max_tools, set_aside);
    if definitions.len() > MAX_TOOLS {
        let reason = format!("the server lists {} tools, over the limit of {MAX_TOOLS}", definitions.len());
        set_aside.push(SetAside { kind: "tool", name: "…".into(), reason });
    }
    candidates.sort_by(|a, b| a.own.cmp(&b.own));
    let quarantined = quarantine(entry, &mut candidates, by, set_aside);
    let names = expose_all(&candidates, entry, by, set_aside);
    let (tools, text) = write_tools(entry, candidates, names);
    (tools, text, quarantined)
}

/// Reads the required members of a tool: its name and an object as input schema.
fn read_tool(source: &RawJson) -> Result<(String, Vec<Member>), (String, String)> {
    let text = source.as_str();
    let preview = || text.chars().take(60).collect::<String>();
    let members = source.members().map_err(|_| (preview(), "the definition is not an object".to_owned()))?;
    let find = |key: &str| members.iter().find(|member| member.key == key).map(|member| &member.value);
    let name = find("name").and_then(|name| name.string()).map(|name| name.into_owned());
    let Some(name) = name else { return Err((preview(), "the definition has no name".to_owned())) };
    if name.is_empty() || name.chars().count() > 256 {
        return Err((name.chars().take(60).collect(), "the name is empty or over 256 characters".to_owned()));
    }
    if text.len() > MAX_DEFINITION_BYTES {
        let size = text.len();
        return Err((
            name,
            format!("the definition has {size} bytes, over the limit of {MAX_DEFINITION_BYTES}"),
        ));
    }
    if nests_deeper(text, MAX_DEFINITION_DEPTH) {
        return Err((name, format!("the definition nests deeper than {MAX_DEFINITION_DEPTH}")));
    }
    if find("inputSchema").is_none() {
        return Err((name, "`inputSchema` is missing".to_owned()));
    }
    // Parsers take the last of duplicate keys, so every one must fit.
    for schema in members.iter().filter(|member| member.key == "inputSchema") {
        if let Some(reason) = not_of_object(&schema.value) {
            return Err((name, reason));
        }
    }
    Ok((name, members))
}

/// The reason why a schema is not one of an object. Official clients refuse the whole list if it contains such a tool.
pub(super) fn not_of_object(schema: &RawJson) -> Option<String> {
    let Ok(members) = schema.members() else { return Some("`inputSchema` is not an object".to_owned()) };
    let mut types = members.iter().filter(|member| member.key == "type");
    let other = types.find(|member| member.value.string().as_deref() != Some("object"))?;
    let shown: String = other.value.as_str().chars().take(60).collect();
    Some(format!("`inputSchema` must have `\"type\": \"object\"`, but has `\"type\": {shown}`"))
}

/// Removes the parameters that the gateway supplies from a tool's schema, and returns how much of the rest is checked.
fn make_public(
    members: &mut [Member],
    hiding: &ParameterHider<'_>,
    patterns: &mut Patterns,
) -> Result<(Option<Box<InjectedArguments>>, Coverage), String> {
    let (mut all, mut coverage) = (None, Coverage::Whole);
    // Parsers take the last of duplicate keys; none of the others may reveal hidden parameters.
    for member in members.iter_mut().filter(|member| member.key == "inputSchema") {
        // If the schema cannot be searched completely, a hidden parameter could stay visible.
        let applied = hiding.apply(&member.value).map_err(|SchemaTooLarge| {
            "its schema is too large or too deep to be searched for what the gateway supplies".to_owned()
        })?;
        if let Some((public, injected)) = applied {
            member.value = public;
            all = Some(Box::new(injected));
        }
        coverage = survey(&member.value, patterns);
    }
    Ok((all, coverage))
}

fn expose_all(
    candidates: &[ToolCandidate<'_>],
    entry: &ServerEntry,
    by: AdmissionContext<'_>,
    set_aside: &mut Vec<SetAside>,
) -> Vec<String> {
    let AdmissionContext { naming, taken, known, .. } = by;
    let server = entry.name.as_str();
    let taken = |name: &str| taken(name) || is_ours(entry, name);
    let known: Vec<Option<String>> =
        candidates.iter().map(|candidate| known(&candidate.own).filter(|name| !taken(name))).collect();
    let plain_names = plain_names(candidates, &known, entry, naming);
    // A tool that already has a name keeps it, whatever its position in the sort order.
    let mut used: HashSet<String> = known.iter().flatten().cloned().collect();
    let mut names = Vec::with_capacity(candidates.len());
    for ((candidate, known), plain) in candidates.iter().zip(known).zip(plain_names) {
        let name = match known {
            Some(known) => known,
            None if taken(&plain) || used.contains(&plain) => naming.suffixed(&plain, server, &candidate.own),
            None => plain.clone(),
        };
        if let Some(reason) = odd_name(entry, &candidate.own, &plain, &name) {
            set_aside.push(SetAside { kind: "name", name: candidate.own.clone(), reason });
        }
        used.insert(name.clone());
        names.push(name);
    }
    names
}

/// The plain names of a server's tools. A name that repeats the server is shortened, unless another tool of the server
/// or the gateway has the short name: before the first tool was shortened, it already was the name of the other one.
/// All callers see the same name, also those who may not use the other tool: names must not change with the rules.
fn plain_names(
    candidates: &[ToolCandidate<'_>],
    known: &[Option<String>],
    entry: &ServerEntry,
    naming: &Naming,
) -> Vec<String> {
    let server = entry.name.as_str();
    let mut names: Vec<String> =
        candidates.iter().map(|candidate| naming.expose_tool(server, &candidate.own)).collect();
    if !candidates.iter().any(|candidate| spelling::begins_with_server(server, &candidate.own)) {
        return names;
    }
    // A tool that has another name already does not need its plain one.
    let claims =
        names.iter().zip(known).filter(|(name, known)| known.as_ref().is_none_or(|known| known == *name));
    let mut claims_of: HashMap<String, usize> = HashMap::new();
    claims.for_each(|(name, _)| *claims_of.entry(name.clone()).or_default() += 1);
    for ((name, candidate), known) in names.iter_mut().zip(candidates).zip(known) {
        let is_shared = claims_of.get(name).is_some_and(|claims| *claims > 1);
        let is_free = known.as_ref() == Some(name) || !(is_shared || is_ours(entry, name));
        if !is_free && spelling::begins_with_server(server, &candidate.own) {
            *name = naming.expose(server, &candidate.own);
        }
    }
    names
}

/// Whether a name equals or resembles the name of one of the gateway's own tools, on any server and even if the
/// gateway does not offer that tool at the moment.
fn is_ours(entry: &ServerEntry, name: &str) -> bool {
    !entry.is_own() && reserved(name).is_some()
}

/// A note for people about the exposed name of a tool, if it is unusual.
fn odd_name(entry: &ServerEntry, own: &str, plain: &str, name: &str) -> Option<String> {
    let ours = reserved(own).or_else(|| reserved(plain)).filter(|_| !entry.is_own());
    if let Some(ours) = ours {
        return Some(format!(
            "it has the name of `{ours}`, a tool of the gateway's own, so it is reached as `{name}` only"
        ));
    }
    if let Some(why) = misleading_letters(own) {
        return Some(format!("its name may deceive: {why}; it is offered as `{name}`"));
    }
    (name != plain).then(|| format!("its name `{plain}` was taken, so it is offered as `{name}`"))
}

/// Reports the tools over the limit: the first few by name, then a count.
fn note_surplus(surplus: Vec<String>, limit: usize, set_aside: &mut Vec<SetAside>) {
    let more = surplus.len().saturating_sub(NAMED_SURPLUS);
    for name in surplus.into_iter().take(NAMED_SURPLUS) {
        let reason =
            format!("the server lists more than {limit} tools, the limit of `limits.tools_per_server`");
        set_aside.push(SetAside { kind: "tool", name, reason });
    }
    if more > 0 {
        let reason = format!("{more} more tools are over the limit of {limit} (`limits.tools_per_server`)");
        set_aside.push(SetAside { kind: "tool", name: "…".into(), reason });
    }
}

/// A server's instructions for models, unless they contain hidden characters.
fn admit_instructions(text: Option<&str>, set_aside: &mut Vec<SetAside>) -> Option<String> {
    let text = text?;
    let Some((character, kind, _)) = suspicious(text) else { return Some(text.to_owned()) };
    set_aside.push(SetAside {
        kind: "instructions",
        name: visible(text).chars().take(60).collect(),
        reason: format!("hidden characters: U+{:04X} ({kind})", u32::from(character)),
    });
    None
}

fn admit_offers(
    entry: &Arc<ServerEntry>,
    kind: &'static str,
    definitions: &[RawJson],
    key: &str,
    rename: &dyn Fn(&str) -> String,
    set_aside: &mut Vec<SetAside>,
) -> Vec<CatalogItem> {
    let mut offers: Vec<CatalogItem> = Vec::new();
    for source in definitions.iter().take(MAX_TOOLS) {
        let own = source.member(key).and_then(|value| value.string().map(|text| text.into_owned()));
        let Some(own) = own.filter(|own| !own.is_empty() && own.len() <= 4096) else {
            let name = source.as_str().chars().take(60).collect();
            set_aside.push(SetAside { kind, name, reason: format!("the definition has no `{key}`") });
            continue;
        };
        if let Some(why) = find_hidden(source.as_str()).filter(|_| !entry.is_own()) {
            set_aside.push(SetAside { kind, name: visible(&own).into_owned(), reason: why.to_string() });
            continue;
        }
        let exposed = rename(&own);
        let renamed = crate::json::with_members(source, &[(key, RawJson::from_value(&exposed))]);
        offers.push(CatalogItem {
            server: entry.clone(),
            key: own.into(),
            exposed: exposed.into(),
            definition: renamed.unwrap_or_else(|_| source.clone()).detached(),
        });
    }
    offers.sort_by(|a, b| a.key.cmp(&b.key));
    offers.dedup_by(|a, b| a.key == b.key);
    offers
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
