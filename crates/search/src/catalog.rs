//! Search over a snapshot of the catalog. The index is built on the first search and kept with the snapshot.

use crate::encoder::EncodedQuery;
use crate::index::{Hit, Index};
use crate::query::Query;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Catalog;
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
    let view = index.view(catalog.view_key(caller), |tool| on_tool(caller, tool) == Permission::Granted);
    index.search(&view, query, encoded)
}

/// The index of a snapshot. Servers that an earlier snapshot has indexed are not indexed again.
pub fn index_of(catalog: &Catalog) -> Arc<Index> {
    catalog.derived().get_or_compute(|| Index::of(catalog.servers().values()))
}
