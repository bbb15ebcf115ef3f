//! By which a client knows again what it has: the catalog as one caller sees it, and what was asked of it.

use super::Rest;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Catalog;

/// The tag of what these callers, who are one, are told of the catalog. Revisions are counted anew with every
/// start, so a tag holds for one life of a gateway.
pub fn of(rest: &Rest, catalog: &Catalog, callers: &[Arc<Caller>], query: Option<&str>) -> String {
    let mut hash = Sha256::new();
    hash.update(rest.life.as_bytes());
    for caller in callers {
        hash.update(catalog.view_key(caller));
        hash.update([0]);
    }
    hash.update(query.unwrap_or_default());
    let digest = hash.finalize();
    format!("W/\"{}-{}\"", catalog.revision, super::asked::hex(&digest[..8]))
}

/// Whether the client has this already.
pub fn is_known(headers: &HeaderMap, tag: Option<&str>) -> bool {
    let Some(tag) = tag else { return false };
    let lists = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|one| matches!(one.trim(), "*") || one.trim() == tag)
}

/// The answer to a client that has it.
pub fn not_modified(tag: Option<String>) -> Response {
    stamped(StatusCode::NOT_MODIFIED.into_response(), tag)
}

/// An answer with its tag. Shared caches keep nothing: another caller sees something else.
pub fn stamped(mut response: Response, tag: Option<String>) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Some(tag) = tag.and_then(|tag| HeaderValue::from_str(&tag).ok()) {
        headers.insert(header::ETAG, tag);
    }
    response
}
