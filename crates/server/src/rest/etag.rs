//! ETags for catalog responses.

use super::RestState;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Catalog;

/// The ETag of a response, from the catalog revision, what the callers may see, and the query. Revisions restart with
/// the gateway, so the tag also includes the run id.
pub fn of(rest: &RestState, catalog: &Catalog, callers: &[Arc<Caller>], query: Option<&str>) -> String {
    let mut hash = Sha256::new();
    hash.update(rest.run_id.as_bytes());
    for caller in callers {
        hash.update(catalog.view_key(caller));
        hash.update([0]);
    }
    hash.update(query.unwrap_or_default());
    let digest = hash.finalize();
    format!("W/\"{}-{}\"", catalog.revision, super::extract::hex(&digest[..8]))
}

/// Whether the client already has the response with this tag.
pub fn is_known(headers: &HeaderMap, tag: Option<&str>) -> bool {
    let Some(tag) = tag else { return false };
    let lists = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|one| matches!(one.trim(), "*") || one.trim() == tag)
}

/// The response to a client that has the current version.
pub fn not_modified(tag: Option<String>) -> Response {
    stamped(StatusCode::NOT_MODIFIED.into_response(), tag)
}

/// Adds the tag to a response. Shared caches must not store it, because it depends on the caller.
pub fn stamped(mut response: Response, tag: Option<String>) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Some(tag) = tag.and_then(|tag| HeaderValue::from_str(&tag).ok()) {
        headers.insert(header::ETAG, tag);
    }
    response
}
