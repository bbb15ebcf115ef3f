//! Candidates: the tools of one server while admission reads them, and what admission knows besides them.

use super::hidden::InjectedArguments;
use super::naming::Naming;
use super::spelling;
use super::tool::{Bounds, Tool, ToolCaches};
use crate::json::{Member, ObjectWriter, RawJson};
use crate::manifest::{AuthHints, Overlay, ToolTerms};
use crate::server::ServerEntry;
use bytes::{Bytes, BytesMut};
use std::sync::Arc;

/// A definition that was not admitted, or was admitted with a change, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// `tool`, `prompt`, `resource`, `template` or `instructions`: not admitted. `name`: the tool is renamed, or its
    /// name may deceive. `schema`: the tool is listed, but not all of its arguments are checked. `quarantine`: the
    /// tool waits to be released. `list`: the list was not read to its end.
    pub kind: &'static str,
    /// Its name if it could be read, otherwise a preview of the text.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// The inputs of admission besides the server's own lists.
#[derive(Clone, Copy)]
pub struct AdmissionContext<'a> {
    /// How tools are named.
    pub naming: &'a Naming,
    /// Whether another server already uses a name.
    pub taken: &'a dyn Fn(&str) -> bool,
    /// The exposed name that a tool of this server already has. It is kept, because models know it.
    pub known: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a tool was released from quarantine in this version.
    pub released: &'a dyn Fn(&Tool) -> bool,
    /// The maximum number of tools admitted from the server.
    pub max_tools: usize,
}

/// A tool of a server that fits the catalog, before it has its exposed name.
#[derive(Clone)]
pub(super) struct ToolCandidate<'a> {
    pub(super) own: String,
    pub(super) members: Vec<Member>,
    pub(super) source: &'a RawJson,
    pub(super) injected: Option<Box<InjectedArguments>>,
    pub(super) needs_approval: bool,
}

/// Writes all definitions into one buffer, so that a list is ready to send and a tool's definition is a slice of it.
pub(super) fn write_tools(
    entry: &Arc<ServerEntry>,
    candidates: Vec<ToolCandidate<'_>>,
    names: Vec<String>,
) -> (Vec<Arc<Tool>>, Bytes) {
    let size: usize = candidates.iter().map(|candidate| candidate.source.as_bytes().len() + 32).sum();
    let mut text = BytesMut::with_capacity(size);
    let mut ranges = Vec::with_capacity(candidates.len());
    for (candidate, exposed) in candidates.iter().zip(&names) {
        if !text.is_empty() {
            text.extend_from_slice(b",");
        }
        let from = text.len();
        let mut writer = ObjectWriter::with_capacity(candidate.source.as_bytes().len() + 32);
        for Member { key, value } in &candidate.members {
            match key.as_str() {
                "name" => writer.text("name", exposed),
                _ => writer.raw(key, value),
            };
        }
        text.extend_from_slice(writer.finish().as_bytes());
        ranges.push(from..text.len());
    }
    let text = text.freeze();
    let usual = Arc::new(ToolTerms::of_server(entry));
    let tools = candidates
        .into_iter()
        .zip(names)
        .zip(ranges)
        .map(|((candidate, exposed), range)| {
            let terms = terms_of(entry, &candidate, &usual);
            Arc::new(Tool {
                bounds: Bounds::of_terms(&terms).map(Box::new),
                original: None,
                entry_names: Vec::new(),
                terms,
                server: entry.clone(),
                name: candidate.own.into(),
                exposed: exposed.into(),
                hashed_name: None,
                definition: RawJson::trusted(text.slice(range)),
                injected: candidate.injected,
                needs_approval: candidate.needs_approval,
                caches: ToolCaches::default(),
            })
        })
        .collect();
    (tools, text)
}

/// The terms of one tool: the server's, with the overrides for this tool.
fn terms_of(entry: &ServerEntry, candidate: &ToolCandidate<'_>, usual: &Arc<ToolTerms>) -> Arc<ToolTerms> {
    let meta = candidate.members.iter().find(|member| member.key == "_meta");
    let hints = meta.and_then(|meta| meta.value.member("auth")).and_then(|auth| auth.read().ok());
    let fields = override_of(entry, &candidate.own);
    if hints.is_none() && fields.is_none() {
        return usual.clone();
    }
    let mut terms = (**usual).clone();
    if let Some(hints) = hints {
        let auth = Some(AuthHints::read(&hints));
        terms = terms.with_overlay(&Overlay { auth, ..Overlay::default() });
    }
    if let Some(fields) = fields {
        terms = terms.with_overlay(&ToolTerms::read_override(fields));
    }
    Arc::new(terms)
}

/// The override in a server's entry for one tool, under any of the tool's names.
fn override_of<'a>(entry: &'a ServerEntry, own: &str) -> Option<&'a serde_json::Value> {
    let overrides = &entry.tools.overrides;
    let named = |key: &str| spelling::any_qualified(entry.name.as_str(), own, |form| form == key);
    overrides.get(own).or_else(|| overrides.iter().find(|(key, _)| named(key)).map(|(_, fields)| fields))
}
