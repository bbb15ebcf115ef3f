//! Search over a snapshot of the catalog. The index is built on the first search and kept with the snapshot.

use crate::encoder::EncodedQuery;
use crate::index::{Hit, Index};
use crate::query::Query;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Catalog, Tool};
use toolbooth_core::permission::{Permission, on_tool};

/// The tools of a caller that match a query best, best first. Tools the caller may not use do not affect the order.
pub fn search(catalog: &Catalog, caller: &Caller, query: &Query) -> Vec<Hit> {
    search_with(catalog, caller, query, None)
}

/// Like [`search`], with similarities computed by an encoder.
pub fn search_with(
    catalog: &Catalog,
    caller: &Caller,
    query: &Query,
    encoded: Option<&EncodedQuery>,
) -> Vec<Hit> {
    let index = index_of(catalog);
    let view = index.view(catalog.view_key(caller), |tool| may_find(catalog, caller, tool));
    index.search(&view, query, encoded)
}

/// Whether a caller may find a tool, or the skill that it represents.
fn may_find(catalog: &Catalog, caller: &Caller, tool: &Tool) -> bool {
    match tool.skill().filter(|skill| !skill.is_tool()) {
        Some(skill) => catalog.skill(&skill.name, caller).is_some_and(|found| Arc::ptr_eq(found, skill)),
        None => on_tool(caller, tool) == Permission::Granted,
    }
}

/// The index of a snapshot. Servers that an earlier snapshot has indexed are not indexed again.
pub fn index_of(catalog: &Catalog) -> Arc<Index> {
    catalog.derived().get_or_compute(|| {
        let skills = catalog.skill_set().searchable();
        Index::of(catalog.servers().values().chain(skills))
    })
}
