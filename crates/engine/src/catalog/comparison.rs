//! Comparisons of what servers offer: whether lists, permissions or terms have changed.

use std::sync::Arc;
use toolbooth_core::catalog::{CatalogItem, CatalogParts, ListKind, ServerCatalog, ToolAccess};

/// Whether two sets of parts are the same, also in what lists do not show.
pub(super) fn is_same(before: &CatalogParts, after: &CatalogParts) -> bool {
    before.len() == after.len()
        && before.iter().zip(after).all(|((a, x), (b, y))| {
            let same = || x.entry == y.entry && x.quarantined == y.quarantined;
            a == b && (Arc::ptr_eq(x, y) || (same() && same_hidden(x, y) && same_terms(x, y)))
        })
}

/// Whether the tools of two parts have the same terms and the same callers may use them.
fn same_terms(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    before.tools.len() == after.tools.len()
        && before.tools.iter().zip(&after.tools).all(|(a, b)| {
            (Arc::ptr_eq(&a.terms, &b.terms) || a.terms == b.terms)
                && a.bounds == b.bounds
                && a.needs_approval == b.needs_approval
        })
}

/// The lists that differ.
pub(super) fn changed_lists(before: &CatalogParts, after: &CatalogParts) -> Vec<ListKind> {
    let kinds = [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Templates];
    kinds.into_iter().filter(|kind| !same_list(*kind, before, after)).collect()
}

fn same_list(kind: ListKind, before: &CatalogParts, after: &CatalogParts) -> bool {
    let has_any = |part: &&Arc<ServerCatalog>| match kind {
        ListKind::Tools => !part.tools.is_empty(),
        _ => !offers(kind, part).is_empty(),
    };
    let same = |a: &ServerCatalog, b: &ServerCatalog| match kind {
        // Permissions may have changed as well; each stream compares its own list.
        ListKind::Tools => a.tools_text == b.tools_text && same_bounds(a, b),
        _ => {
            let (a, b) = (offers(kind, a), offers(kind, b));
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.definition == b.definition)
        }
    };
    let (before, after): (Vec<_>, Vec<_>) =
        (before.values().filter(has_any).collect(), after.values().filter(has_any).collect());
    before.len() == after.len()
        && before.iter().zip(&after).all(|(a, b)| a.entry.name == b.entry.name && same(a, b))
}

/// Longer texts are compared only byte by byte, because parsing them would take too much memory.
const MAX_PARSED_BYTES: usize = 1 << 20;

/// Whether two parts differ only in the order of keys.
pub(super) fn same_meaning(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    let same_text = |a: &[u8], b: &[u8]| {
        a == b
            || (a.len() == b.len() && a.len() <= MAX_PARSED_BYTES && {
                let value = |text: &[u8]| {
                    serde_json::from_slice::<serde_json::Value>(&[b"[", text, b"]"].concat()).ok()
                };
                value(a).is_some_and(|a| Some(a) == value(b))
            })
    };
    let same_offers = |kind: ListKind| {
        let (a, b) = (offers(kind, before), offers(kind, after));
        let same = |(a, b): (&CatalogItem, &CatalogItem)| {
            same_text(a.definition.as_bytes(), b.definition.as_bytes())
        };
        a.len() == b.len() && a.iter().zip(b).all(same)
    };
    same_text(&before.tools_text, &after.tools_text)
        && same_hidden(before, after)
        && [ListKind::Prompts, ListKind::Resources, ListKind::Templates].into_iter().all(same_offers)
        && before.capabilities == after.capabilities
        && before.instructions == after.instructions
        && before.set_aside == after.set_aside
        && before.quarantined == after.quarantined
}

fn same_bounds(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    (before.tool_access == ToolAccess::Uniform && after.tool_access == ToolAccess::Uniform)
        || before.tools.iter().map(|tool| &tool.bounds).eq(after.tools.iter().map(|tool| &tool.bounds))
}

/// Whether the tools of two parts declare the same hidden arguments.
fn same_hidden(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    let injected = |part: &ServerCatalog| -> Vec<_> {
        let declaring = part.tools.iter().filter(|tool| tool.injected.is_some());
        declaring.map(|tool| (tool.name.clone(), tool.injected.clone())).collect()
    };
    injected(before) == injected(after)
}

fn offers(kind: ListKind, part: &ServerCatalog) -> &[CatalogItem] {
    match kind {
        ListKind::Tools => &[],
        ListKind::Prompts => &part.prompts,
        ListKind::Resources => &part.resources,
        ListKind::Templates => &part.templates,
    }
}
