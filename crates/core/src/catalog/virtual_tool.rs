//! Virtual tools: entries of manifests that their providers serve, on a server that does not run.

use super::bounds::{Backing, Bounds};
use super::hidden::{Hiding, Injected};
use super::overlay::{check_size, public};
use super::tool::Tool;
use crate::json::{ObjectWriter, RawJson};
use crate::manifest::{Manifest, Scope, ToolTerms};
use crate::names::ServerName;
use crate::schema::{Coverage, Patterns, survey};
use crate::server::{Inject, ServerEntry, Transport};
use sha2::{Digest, Sha256};
use std::sync::{Arc, OnceLock};

/// Under what name the shared tools of manifests stand among the servers; those of a persona have its name
/// behind it.
pub(super) const NAME: &str = "_manifest";

/// The server on which the tools of a scope stand.
pub(super) fn server_of(scope: &Scope) -> Option<ServerEntry> {
    let (name, personas) = match scope {
        Scope::Shared => (NAME.to_owned(), Vec::new()),
        Scope::Persona(persona) => (persona_server(persona), vec![persona.clone()]),
    };
    let name: ServerName = name.parse().ok()?;
    let mut entry = ServerEntry::with_defaults(name, Transport::Virtual);
    entry.about.description = Some("Tools that the gateway's manifests describe.".into());
    entry.personas = personas;
    Some(entry)
}

/// A persona may be called what no server can be.
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

/// What a virtual tool is made of.
pub(super) struct Making<'a> {
    /// The server it stands on.
    pub server: &'a Arc<ServerEntry>,
    /// The entries that describe it, in the order in which they are laid; the last has the name.
    pub entries: &'a [&'a Manifest],
    /// The name under which it is listed.
    pub exposed: &'a str,
    /// Who serves each of its providers, by their order in `terms`.
    pub backing: &'a dyn Fn(&Manifest) -> Vec<Backing>,
    /// Personas that have a tool of this name of their own.
    pub shadowed_for: Vec<Box<str>>,
}

/// Makes a virtual tool; a reason where that cannot be.
pub(super) fn make(making: Making<'_>) -> Result<(Tool, Coverage), String> {
    let Making { server, entries, exposed, backing, shadowed_for } = making;
    let Some(last) = entries.last() else { return Err("it is described by nothing".to_owned()) };
    let mut terms = ToolTerms::of_server(server);
    for entry in entries {
        terms = terms.under_entry(entry);
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
        definition,
        injected,
        terms: Arc::new(terms),
        needs_approval,
        bounds: Some(Box::new(bounds)),
        under: None,
        entry_names: Vec::new(),
        effect: OnceLock::new(),
        digest: OnceLock::new(),
        schema: OnceLock::new(),
        output: OnceLock::new(),
        quality: OnceLock::new(),
        cost: OnceLock::new(),
    };
    Ok((tool, coverage))
}

/// The schema that clients see, and what the gateway supplies. Without one of its own a tool takes what the
/// first tool that serves it takes, and until that is known, anything.
fn schema(entries: &[&Manifest], served: &[&Arc<Tool>]) -> Result<(RawJson, Option<Box<Injected>>), String> {
    let Some(parameters) = entries.iter().rev().find_map(|entry| entry.parameters.as_ref()) else {
        return Ok(match served.first() {
            Some(tool) => (tool.input_schema(), tool.injected.clone()),
            None => (RawJson::trusted(&br#"{"type":"object"}"#[..]), None),
        });
    };
    // What any of those who serve it takes from the gateway alone, nobody gives under this name either.
    let mut inject = Inject::default();
    for other in served.iter().map(|tool| &tool.server.inject) {
        inject.mcp_data |= other.mcp_data;
        inject.identity.extend(
            other.identity.iter().filter(|name| !inject.identity.contains(name)).cloned().collect::<Vec<_>>(),
        );
        inject.files.extend(
            other.files.iter().filter(|name| !inject.files.contains(name)).cloned().collect::<Vec<_>>(),
        );
    }
    public(&Hiding::of(&inject), parameters, Injected::default())
}
