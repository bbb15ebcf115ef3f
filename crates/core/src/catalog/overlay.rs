//! Overlays: apply manifest entries to a discovered tool.

use super::admission::{MAX_DEFINITION_BYTES, MAX_DEFINITION_DEPTH, not_of_object};
use super::hidden::{InjectedArguments, ParameterHider, SchemaTooLarge};
use super::tool::{Backing, Bounds, Tool, ToolCaches};
use crate::json::{RawJson, nests_deeper, with_members};
use crate::manifest::{Manifest, ManifestScope};
use crate::schema::{Coverage, Patterns, survey};
use std::sync::Arc;

/// The inputs of [`overlay`].
pub(super) struct OverlayInput<'a> {
    /// The entries, in the order in which they apply.
    pub entries: &'a [&'a Manifest],
    /// The new exposed name of the tool.
    pub exposed: &'a str,
    /// The backing of the providers of an entry.
    pub backing: &'a dyn Fn(&Manifest) -> Vec<Backing>,
    /// Personas that have their own version.
    pub shadowed_for: Vec<Box<str>>,
}

/// Applies entries to a tool and keeps the server's definition in `original`. Returns the reason if that is impossible.
pub(super) fn overlay(base: &Arc<Tool>, laying: OverlayInput<'_>) -> Result<(Tool, Coverage), String> {
    let OverlayInput { entries, exposed, backing, shadowed_for } = laying;
    let declares = |entry: &&&Manifest| entry.parameters.is_some();
    let parameters = entries.iter().rev().find(declares).and_then(|entry| entry.parameters.as_ref());
    let description = entries.iter().rev().find_map(|entry| entry.description.as_deref());
    let hiding = ParameterHider::of(&base.server.inject);
    let mut members = vec![("name", RawJson::from_value(exposed))];
    members.extend(description.map(|text| ("description", RawJson::from_value(text))));
    let mut injected = base.injected.clone();
    let mut coverage = Coverage::Whole;
    if let Some(parameters) = parameters {
        let before = base.injected.as_deref().cloned().unwrap_or_default();
        let (public, supplied) = public(&hiding, parameters, before)?;
        coverage = survey(&public, &mut Patterns::default());
        members.push(("inputSchema", public));
        injected = supplied;
    }
    let definition = with_members(&base.definition, &members).map_err(|error| error.to_string())?;
    check_size(&definition)?;
    let mut terms = (*base.terms).clone();
    for entry in entries {
        terms = terms.with_entry(entry);
    }
    let mut bounds = Bounds::of_terms(&terms).unwrap_or_default();
    bounds.shadowed_for = shadowed_for;
    bounds.only_for = entries.iter().find_map(|entry| match &entry.scope {
        ManifestScope::Persona(name) => Some(name.as_str().into()),
        ManifestScope::Shared => None,
    });
    if let Some(entry) = entries.iter().rev().find(|entry| !entry.providers.is_empty()) {
        bounds.backing = backing(entry);
    }
    let tool = Tool {
        server: base.server.clone(),
        name: base.name.clone(),
        exposed: exposed.into(),
        hashed_name: None,
        definition,
        injected,
        terms: Arc::new(terms),
        needs_approval: base.needs_approval
            || bounds.backing.iter().flat_map(Backing::tools).any(|tool| tool.needs_approval),
        bounds: (bounds != Bounds::default()).then(|| Box::new(bounds)),
        original: Some(base.clone()),
        entry_names: entry_names(entries, base, exposed),
        caches: ToolCaches::default(),
    };
    Ok((tool, coverage))
}

/// Whether an entry refers to a tool only by the server's own name for it.
pub(super) fn is_bound(entry: &Manifest, tool: &Tool) -> bool {
    entry.providers.is_empty() && *entry.name == *tool.name && *entry.name != *tool.exposed
}

/// The names that entries give a tool, besides its exposed name. If an entry was bound by the server's own name for the
/// tool, that is not a name that the operator gave it: its id stands for it, because permissions rely on these names.
fn entry_names(entries: &[&Manifest], base: &Tool, exposed: &str) -> Vec<Box<str>> {
    let mut names: Vec<Box<str>> = Vec::new();
    for entry in entries {
        let name = match is_bound(entry, base) {
            true => base.canonical(),
            false if entry.name != exposed => entry.name.clone(),
            false => continue,
        };
        if !names.iter().any(|known| **known == *name) {
            names.push(name.into());
        }
    }
    names
}

/// A manifest's schema as clients see it, and the parameters that the gateway supplies.
pub(super) fn public(
    hiding: &ParameterHider<'_>,
    parameters: &RawJson,
    before: InjectedArguments,
) -> Result<(RawJson, Option<Box<InjectedArguments>>), String> {
    if not_of_object(parameters).is_some() {
        return Err(r#"its parameters must be a schema with `"type": "object"`"#.to_owned());
    }
    if nests_deeper(parameters.as_str(), MAX_DEFINITION_DEPTH - 1) {
        return Err(format!("its parameters nest deeper than {}", MAX_DEFINITION_DEPTH - 1));
    }
    let applied = hiding.apply_over(parameters, before).map_err(|SchemaTooLarge| {
        "its parameters are too large or too deep to be searched for what the gateway supplies".to_owned()
    })?;
    Ok(match applied {
        Some((public, injected)) => (public, Some(Box::new(injected))),
        None => (parameters.clone(), None),
    })
}

pub(super) fn check_size(definition: &RawJson) -> Result<(), String> {
    match definition.as_bytes().len() {
        size if size > MAX_DEFINITION_BYTES => {
            Err(format!("the definition has {size} bytes, over the limit of {MAX_DEFINITION_BYTES}"))
        }
        _ => Ok(()),
    }
}
