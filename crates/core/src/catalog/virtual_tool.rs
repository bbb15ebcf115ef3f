//! Virtual tools: manifest entries that providers serve, listed under a server that does not run.

use super::hidden::{InjectedArguments, ParameterHider};
use super::overlay::{check_size, public};
use super::tool::{Backing, Bounds, Tool, ToolCaches};
use crate::json::{ObjectWriter, RawJson};
use crate::manifest::{Manifest, ManifestScope, ToolTerms};
use crate::names::ServerName;
use crate::schema::{Coverage, Patterns, survey};
use crate::server::{InjectionSettings, ServerEntry, Transport};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The server name of the shared tools of manifests. For the tools of a persona, the persona's name is appended.
pub(super) const NAME: &str = "_manifest";

/// The virtual server for the tools of a scope.
pub(super) fn server_of(scope: &ManifestScope) -> Option<ServerEntry> {
    let (name, personas) = match scope {
        ManifestScope::Shared => (NAME.to_owned(), Vec::new()),
        ManifestScope::Persona(persona) => (persona_server(persona), vec![persona.clone()]),
    };
    let name: ServerName = name.parse().ok()?;
    let mut entry = ServerEntry::with_defaults(name, Transport::Virtual);
    entry.about.description = Some("Tools that the gateway's manifests define.".into());
    entry.personas = personas;
    Some(entry)
}

/// A server name for a persona, whose name may contain characters that are invalid in server names.
fn persona_server(persona: &str) -> String {
    let plain = format!("{NAME}.{persona}");
    if plain.parse::<ServerName>().is_ok() {
        return plain;
    }
    let digest = Sha256::digest(persona.as_bytes());
    let clean: String =
        persona.chars().filter(|c| c.is_ascii_alphanumeric() || "_-.".contains(*c)).take(40).collect();
    format!("{NAME}.{clean}-{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
}

/// The inputs of [`build`].
pub(super) struct VirtualToolInput<'a> {
    /// Its server.
    pub server: &'a Arc<ServerEntry>,
    /// The entries that define it, in the order in which they apply; the last one names it.
    pub entries: &'a [&'a Manifest],
    /// Its exposed name.
    pub exposed: &'a str,
    /// The backing of each of its providers, in the order of `terms`.
    pub backing: &'a dyn Fn(&Manifest) -> Vec<Backing>,
    /// Personas that have their own tool of this name.
    pub shadowed_for: Vec<Box<str>>,
}

/// Builds a virtual tool. Returns the reason if that is impossible.
pub(super) fn build(making: VirtualToolInput<'_>) -> Result<(Tool, Coverage), String> {
    let VirtualToolInput { server, entries, exposed, backing, shadowed_for } = making;
    let Some(last) = entries.last() else { return Err("no entry defines it".to_owned()) };
    let mut terms = ToolTerms::of_server(server);
    for entry in entries {
        terms = terms.with_entry(entry);
    }
    let serving = entries.iter().rev().find(|entry| !entry.providers.is_empty());
    let backing = serving.map(|entry| backing(entry)).unwrap_or_default();
    let served: Vec<&Arc<Tool>> = backing.iter().flat_map(Backing::tools).collect();
    if let Some(first) =
        served.first().filter(|_| entries.iter().all(|entry| entry.overlay.timeout.is_none()))
    {
        terms.timeout = first.terms.timeout;
    }
    let (schema, injected) = schema(entries, &served)?;
    let described = entries.iter().rev().find_map(|entry| entry.description.clone());
    let described = described.or_else(|| served.first().and_then(|tool| tool.description()));
    let mut writer = ObjectWriter::with_capacity(schema.as_bytes().len() + 256);
    writer.text("name", exposed);
    if let Some(text) = &described {
        writer.text("description", text);
    }
    writer.raw("inputSchema", &schema);
    let definition = writer.finish();
    check_size(&definition)?;
    let coverage = survey(&schema, &mut Patterns::default());
    let needs_approval = served.iter().any(|tool| tool.needs_approval);
    let bounds = Bounds { shadowed_for, backing, ..Bounds::of_terms(&terms).unwrap_or_default() };
    let tool = Tool {
        server: server.clone(),
        name: last.name.as_str().into(),
        exposed: exposed.into(),
        hashed_name: None,
        definition,
        injected,
        terms: Arc::new(terms),
        needs_approval,
        bounds: Some(Box::new(bounds)),
        original: None,
        entry_names: Vec::new(),
        caches: ToolCaches::default(),
    };
    Ok((tool, coverage))
}

/// The schema that clients see, and the parameters that the gateway supplies. Without its own schema, a tool has the
/// schema of the first tool that serves it, or accepts anything until that tool is known.
fn schema(
    entries: &[&Manifest],
    served: &[&Arc<Tool>],
) -> Result<(RawJson, Option<Box<InjectedArguments>>), String> {
    let Some(parameters) = entries.iter().rev().find_map(|entry| entry.parameters.as_ref()) else {
        return Ok(match served.first() {
            Some(tool) => (tool.input_schema(), tool.injected.clone()),
            None => (RawJson::trusted(&br#"{"type":"object"}"#[..]), None),
        });
    };
    // A parameter that only the gateway may supply to a serving tool is supplied by the gateway here as well.
    let mut inject = InjectionSettings::default();
    for InjectionSettings { mcp_data, identity, files } in served.iter().map(|tool| &tool.server.inject) {
        inject.mcp_data |= mcp_data;
        for (names, more) in [(&mut inject.identity, identity), (&mut inject.files, files)] {
            let more: Vec<_> = more.iter().filter(|name| !names.contains(name)).cloned().collect();
            names.extend(more);
        }
    }
    public(&ParameterHider::of(&inject), parameters, InjectedArguments::default())
}
