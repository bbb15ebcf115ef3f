//! Builds the parts of a catalog, and compares them with those of the previous assembly.

use super::CatalogParts;
use crate::catalog::CatalogItem;
use crate::catalog::admission::ServerCatalog;
use crate::catalog::candidate::SetAside;
use crate::catalog::derived::DerivedData;
use crate::catalog::tool::{Tool, ToolAccess};
use crate::server::ServerEntry;
use bytes::BytesMut;
use std::sync::Arc;

/// A part with other tools; the earlier one if nothing has changed.
pub(in crate::catalog) fn replace_tools(
    part: &ServerCatalog,
    tools: Vec<Arc<Tool>>,
    earlier: &CatalogParts,
) -> Arc<ServerCatalog> {
    let replaced = with_tools(part, tools, Vec::new());
    let earlier = earlier.get(&part.entry.name).filter(|earlier| is_same(earlier, &replaced));
    earlier.cloned().unwrap_or_else(|| Arc::new(replaced))
}

/// A part with other tools and further notes.
pub(super) fn with_tools(
    base: &ServerCatalog,
    tools: Vec<Arc<Tool>>,
    mut notes: Vec<SetAside>,
) -> ServerCatalog {
    let mut set_aside = base.set_aside.clone();
    set_aside.append(&mut notes);
    ServerCatalog {
        entry: base.entry.clone(),
        tool_access: ToolAccess::of(&tools),
        tools_text: joined(&tools),
        tools,
        prompts: base.prompts.clone(),
        resources: base.resources.clone(),
        templates: base.templates.clone(),
        capabilities: base.capabilities.clone(),
        instructions: base.instructions.clone(),
        set_aside,
        quarantined: base.quarantined.clone(),
        derived: DerivedData::default(),
    }
}

/// A part of virtual tools.
pub(in crate::catalog) fn virtual_part(
    entry: Arc<ServerEntry>,
    tools: Vec<Arc<Tool>>,
    set_aside: Vec<SetAside>,
) -> ServerCatalog {
    ServerCatalog {
        entry,
        tool_access: ToolAccess::of(&tools),
        tools_text: joined(&tools),
        tools,
        prompts: Vec::new(),
        resources: Vec::new(),
        templates: Vec::new(),
        capabilities: None,
        instructions: None,
        set_aside,
        quarantined: Vec::new(),
        derived: DerivedData::default(),
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

/// Whether two parts are the same for every caller.
pub(super) fn is_same(earlier: &ServerCatalog, part: &ServerCatalog) -> bool {
    let same_tool = |a: &Arc<Tool>, b: &Arc<Tool>| {
        Arc::ptr_eq(a, b)
            || (a.name == b.name
                && a.exposed == b.exposed
                && a.hashed_name == b.hashed_name
                && a.definition == b.definition
                && a.terms == b.terms
                && a.bounds == b.bounds
                && a.injected == b.injected
                && a.needs_approval == b.needs_approval
                && match (&a.original, &b.original) {
                    (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                    (None, None) => true,
                    _ => false,
                })
    };
    let same_offers = |a: &[CatalogItem], b: &[CatalogItem]| {
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
