//! The web console: static files in the binary, served under `/console/`.
//!
//! The files are public and contain no data. The page calls the REST API like any other client, identified by the
//! cookie of its session (`session`). `console/` contains the sources, and `npm run build` there writes `console/dist`
//! with the table of files that is included here.

mod headers;
mod login;
mod login_page;
mod owner;
mod session;
mod sign_in_log;

use crate::rest::{ProblemDocument, RestState, bad_method, not_found};
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use headers::Caching;
use http::header::{ACCEPT, ACCEPT_ENCODING, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::LazyLock;
use toolbooth_core::fault::{Blame, Problem};

/// A file of the console.
struct ConsoleFile {
    /// The path below `/console/`.
    path: &'static str,
    content_type: &'static str,
    coding: ContentCoding,
    content: &'static [u8],
}

/// How the content of a file is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentCoding {
    /// As it is.
    Identity,
    /// Compressed, and only available in this form.
    Gzip,
}

/// The files, in the order of their paths.
const FILES: &[ConsoleFile] = include!("../../../../console/dist/files.rs");
/// The page that starts the console.
const PAGE: &str = include_str!("../../../../console/dist/index.html");
/// The path of the page in which HTML made by tools is shown.
const FRAME: &str = "frame.html";
/// Folder of files with a content hash in their names.
const HASHED: &str = "assets/";
/// Maximum number of slashes in a path of the page's router. Each one makes the links of the page longer.
const MAX_DEPTH: usize = 8;

/// ETags of [`FILES`], in the same order.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| FILES.iter().map(|file| tag(file.content)).collect());

/// The routes of the console. They are not part of the API and not in its description.
pub fn routes(rest: RestState) -> Router {
    Router::new()
        .route("/", get(start))
        .route("/console", get(|| async { redirect("console/") }))
        .route("/console/", get(file_or_page))
        .route("/console/login", get(login::begin))
        .route("/console/login/callback", get(login::finish))
        .route("/console/owner", get(owner::show).post(owner::open))
        .route("/console/owner-code", post(owner::code))
        .route("/console/session", get(session::show).post(session::open).delete(session::close))
        .route("/console/{*path}", get(file_or_page))
        .method_not_allowed_fallback(bad_method)
        .with_state(rest)
}

/// Leads browsers from `/` to the console. For other clients `/` does not exist.
async fn start(headers: HeaderMap, uri: Uri) -> Response {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    match accepted.any(|types| types.contains("text/html")) {
        true => redirect("console/"),
        false => not_found(uri).await.into_response(),
    }
}

/// A relative redirect, which also works behind a proxy that removes a prefix of the path.
fn redirect(target: &'static str) -> Response {
    let headers = [(LOCATION, target), (VARY, "accept")];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// A file or the page. The page may show frames of the operator's `display.iframe_hosts`.
async fn file_or_page(
    State(rest): State<RestState>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ProblemDocument> {
    let mut response = file(headers, uri).await?;
    headers::allow_frames(&mut response, &rest.engine().terms().results.iframe_hosts);
    Ok(response)
}

/// A file, or the page itself for the paths that the page's own router handles.
async fn file(headers: HeaderMap, uri: Uri) -> Result<Response, ProblemDocument> {
    let path = below_console(&uri);
    let found = FILES.iter().zip(&*TAGS).find(|(file, _)| file.path == path);
    let Some((file, tag)) = found else {
        // A script of an earlier version must not be answered with a page.
        return match path.starts_with(HASHED) || depth(path) > MAX_DEPTH {
            true => Err(not_found(uri).await),
            false => Ok(page(&uri)),
        };
    };
    if file.coding == ContentCoding::Gzip && refuses_gzip(&headers) {
        return Err(ProblemDocument(StatusCode::NOT_ACCEPTABLE, gzip_only()));
    }
    let is_current = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|known| known.trim() == tag);
    let mut response = match is_current {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => file.content.into_response(),
    };
    let caching = if path.starts_with(HASHED) { Caching::Forever } else { Caching::Revalidate };
    headers::set(&mut response, file, caching, tag);
    Ok(response)
}

/// The page. Its links are relative, so each level of the path needs one step up.
fn page(uri: &Uri) -> Response {
    let text = match depth(below_console(uri)) {
        0 => PAGE.to_owned(),
        depth => PAGE.replace("\"./", &format!("\"{}", "../".repeat(depth))),
    };
    let mut response = text.into_response();
    headers::set_page(&mut response);
    response
}

fn below_console(uri: &Uri) -> &str {
    uri.path().strip_prefix("/console/").unwrap_or_default()
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// Whether a client refuses gzip. A client that says nothing accepts every coding (RFC 9110, 12.5.3).
fn refuses_gzip(headers: &HeaderMap) -> bool {
    let Some(accepted) = headers.get(ACCEPT_ENCODING).map(HeaderValue::as_bytes) else { return false };
    let accepted = String::from_utf8_lossy(accepted).to_ascii_lowercase();
    let refuses = |coding: &str| coding.replace(' ', "").ends_with(";q=0");
    let named = |name: &str| accepted.split(',').find(|coding| coding.trim().starts_with(name));
    named("gzip").or_else(|| named("*")).is_none_or(refuses)
}

fn gzip_only() -> Problem {
    Problem {
        code: "request.gzip-only",
        blame: Blame::Caller,
        message: "this file is only available with gzip compression".into(),
        hint: Some("send `Accept-Encoding: gzip`".into()),
    }
}

fn tag(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    let mut tag = String::from("\"");
    for byte in &digest[..12] {
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}

#[cfg(test)]
mod tests;
