//! Delivers the contents of files, to their owner or for a token.

use super::super::RestState;
use super::super::auth::RestCaller;
use super::super::extract::{NoQuery, PathParam, QueryParams};
use super::super::problem::ProblemDocument;
use super::headers::{etag, stamp, stamp_frame};
use super::range::{RequestedRange, requested_range};
use super::{own_file, problem};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::file::FileRow;
use toolbooth_engine::files::{TokenRefusal, TokenUse};
use utoipa::IntoParams;

/// The query of a temporary URL.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct TokenQuery {
    /// The token that the gateway put into the URL.
    token: Option<String>,
}

/// Returns the content of a file, whole or in part (`Range`).
#[utoipa::path(
    get,
    path = "/files/{id}/content",
    params(
        ("id" = String, Path, description = "The id of the file."),
        ("range" = Option<String>, Header, description = "The requested range.", example = "bytes=0-99"),
        ("if-none-match" = Option<String>, Header, description = "The `ETag` of a cached copy."),
    ),
    responses(
        (status = 200, description = "The content.", body = Vec<u8>, content_type = "*/*"),
        (status = 206, description = "The requested range.", body = Vec<u8>, content_type = "*/*"),
        (status = 304, description = "The cached copy is current."),
        (status = 404, description = "`file.unknown`."),
        (status = 416, description = "`request.bad-range`: the range is beyond the end of the file."),
    )
)]
pub async fn content(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ProblemDocument> {
    let file = own_file(&rest, &caller, &id).await?;
    deliver(&rest, &file, &method, &headers).await
}

/// Returns the content of a file for a frame of the console. HTML runs in a sandbox with an origin of its own; other
/// files are delivered like their content.
#[utoipa::path(
    get,
    path = "/files/{id}/frame",
    params(("id" = String, Path, description = "The id of the file.")),
    responses(
        (status = 200, description = "The page.", body = Vec<u8>, content_type = "*/*"),
        (status = 206, description = "The requested range.", body = Vec<u8>, content_type = "*/*"),
        (status = 304, description = "The cached copy is current."),
        (status = 404, description = "`file.unknown`."),
        (status = 416, description = "`request.bad-range`: the range is beyond the end of the file."),
    )
)]
pub async fn frame(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ProblemDocument> {
    let file = own_file(&rest, &caller, &id).await?;
    let mut response = deliver(&rest, &file, &method, &headers).await?;
    stamp_frame(response.headers_mut(), &file);
    Ok(response)
}

/// Returns the content of a file by a temporary URL, which needs only the token in it.
#[utoipa::path(
    get,
    path = "/files/download/{id}",
    params(
        ("id" = String, Path, description = "The id of the file."),
        TokenQuery,
        ("range" = Option<String>, Header, description = "The requested range.", example = "bytes=0-99"),
    ),
    responses(
        (status = 200, description = "The content.", body = Vec<u8>, content_type = "*/*"),
        (status = 206, description = "The requested range.", body = Vec<u8>, content_type = "*/*"),
        (status = 304, description = "The cached copy is current."),
        (status = 401, description = "The token is missing, not valid, or expired."),
        (status = 403, description = "The token is for another file."),
        (status = 404, description = "`file.unknown`: the file was deleted."),
        (status = 416, description = "`request.bad-range`: the range is beyond the end of the file."),
    )
)]
pub async fn download(
    State(rest): State<RestState>,
    PathParam(id): PathParam<String>,
    QueryParams(TokenQuery { token }): QueryParams<TokenQuery>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ProblemDocument> {
    by_token(&rest, &id, token.as_deref(), &method, &headers).await
}

/// Returns the content of a file by a temporary URL that ends in the file's name. The name is for the tool that fetches
/// the file; only the id and the token decide.
#[utoipa::path(
    get,
    path = "/files/download/{id}/{name}",
    params(
        ("id" = String, Path, description = "The id of the file."),
        ("name" = String, Path, description = "The name of the file."),
        TokenQuery,
        ("range" = Option<String>, Header, description = "The requested range.", example = "bytes=0-99"),
    ),
    responses(
        (status = 200, description = "The content.", body = Vec<u8>, content_type = "*/*"),
        (status = 206, description = "The requested range.", body = Vec<u8>, content_type = "*/*"),
        (status = 304, description = "The cached copy is current."),
        (status = 401, description = "The token is missing, not valid, or expired."),
        (status = 403, description = "The token is for another file."),
        (status = 404, description = "`file.unknown`: the file was deleted."),
        (status = 416, description = "`request.bad-range`: the range is beyond the end of the file."),
    )
)]
pub async fn download_named(
    State(rest): State<RestState>,
    PathParam((id, _)): PathParam<(String, String)>,
    QueryParams(TokenQuery { token }): QueryParams<TokenQuery>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ProblemDocument> {
    by_token(&rest, &id, token.as_deref(), &method, &headers).await
}

async fn by_token(
    rest: &RestState,
    id: &str,
    token: Option<&str>,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, ProblemDocument> {
    let look = if *method == Method::HEAD { TokenUse::Head } else { TokenUse::Fetch };
    let found = rest.engine().file_by_token(id, token, look).await;
    let file = found.map_err(|refusal| {
        let status = match refusal {
            TokenRefusal::Invalid => StatusCode::UNAUTHORIZED,
            TokenRefusal::OtherFile => StatusCode::FORBIDDEN,
            TokenRefusal::Gone => StatusCode::NOT_FOUND,
            TokenRefusal::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        ProblemDocument(status, Problem::of(&refusal))
    })?;
    deliver(rest, &file, method, headers).await
}

async fn deliver(
    rest: &RestState,
    file: &FileRow,
    method: &Method,
    request: &HeaderMap,
) -> Result<Response, ProblemDocument> {
    let text = |name| request.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let tag = etag(file);
    let matches = |list: &str| {
        list.split(',').any(|one| matches!(one.trim(), "*") || one.trim().trim_start_matches("W/") == tag)
    };
    if text(header::IF_NONE_MATCH).is_some_and(matches) {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        stamp(response.headers_mut(), file);
        return Ok(response);
    }
    // If the file has changed, the client must not append a range of it to the old content.
    let same = text(header::IF_RANGE).is_none_or(|known| known == tag);
    let size = file.size_bytes;
    let (status, bytes) = match requested_range(text(header::RANGE).filter(|_| same), size) {
        RequestedRange::Whole => (StatusCode::OK, 0..size),
        RequestedRange::Some(bytes) => (StatusCode::PARTIAL_CONTENT, bytes),
        RequestedRange::Unsatisfiable => {
            let bad = Problem {
                code: "request.bad-range",
                blame: Blame::Caller,
                message: format!("the requested range is beyond the end of the file, which has {size} bytes"),
                hint: None,
            };
            let mut response = ProblemDocument(StatusCode::RANGE_NOT_SATISFIABLE, bad).into_response();
            set(response.headers_mut(), header::CONTENT_RANGE, format!("bytes */{size}"));
            return Ok(response);
        }
    };
    let body = match *method {
        Method::HEAD => Body::empty(),
        _ => {
            let content = rest.engine().files().content(file, bytes.clone()).await.map_err(problem)?;
            Body::from_stream(content)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    stamp(headers, file);
    set(headers, header::CONTENT_LENGTH, (bytes.end - bytes.start).to_string());
    if status == StatusCode::PARTIAL_CONTENT {
        set(headers, header::CONTENT_RANGE, format!("bytes {}-{}/{size}", bytes.start, bytes.end - 1));
    }
    Ok(response)
}

fn set(headers: &mut HeaderMap, name: header::HeaderName, value: String) {
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert(name, value);
    }
}
