//! Handing out contents: to their owner, and to whoever shows a token.

use super::super::Rest;
use super::super::asked::{Asked, At, Nothing};
use super::super::problem::ProblemDocument;
use super::super::who::Who;
use super::headers::{etag, stamp};
use super::problem;
use super::range::{Part, part};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::file::FileRow;
use toolbooth_engine::FileProblem;
use toolbooth_engine::files::{Look, TokenRefusal};
use utoipa::IntoParams;

/// The query of an address that was handed to a tool.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct TokenQuery {
    /// What the gateway put into the address.
    token: Option<String>,
}

/// Reads a file, whole or in part (`Range`).
#[utoipa::path(
    get,
    path = "/files/{id}/content",
    params(
        ("id" = String, Path, description = "The file's id."),
        ("range" = Option<String>, Header, description = "The part that is wanted.", example = "bytes=0-99"),
        ("if-none-match" = Option<String>, Header, description = "The `ETag` of a content that is there already."),
    ),
    responses(
        (status = 200, description = "The content.", body = Vec<u8>, content_type = "*/*"),
        (status = 206, description = "A part of it.", body = Vec<u8>, content_type = "*/*"),
        (status = 304, description = "It is there already."),
        (status = 404, description = "`file.unknown`."),
        (status = 416, description = "`request.bad-range`: the file has no such part."),
    )
)]
pub async fn content(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ProblemDocument> {
    let id = id.parse().map_err(|_| problem(FileProblem::Unknown))?;
    let file = rest.door.engine.files().get(&caller, id).await.map_err(problem)?;
    deliver(&rest, &file, &method, &headers).await
}

/// Reads a file by an address that was handed to a tool: for whoever shows its token, and for nobody by other means.
#[utoipa::path(
    get,
    path = "/files/download/{id}",
    params(
        ("id" = String, Path, description = "The file's id."),
        TokenQuery,
        ("range" = Option<String>, Header, description = "The part that is wanted.", example = "bytes=0-99"),
    ),
    responses(
        (status = 200, description = "The content.", body = Vec<u8>, content_type = "*/*"),
        (status = 206, description = "A part of it.", body = Vec<u8>, content_type = "*/*"),
        (status = 304, description = "It is there already."),
        (status = 401, description = "The token is none, or no longer one."),
        (status = 403, description = "The token is for another file."),
        (status = 404, description = "`file.unknown`: the file is gone."),
        (status = 416, description = "`request.bad-range`: the file has no such part."),
    )
)]
pub async fn download(
    State(rest): State<Rest>,
    At(id): At<String>,
    Asked(TokenQuery { token }): Asked<TokenQuery>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ProblemDocument> {
    let look = if method == Method::HEAD { Look::Head } else { Look::Fetch };
    let found = rest.door.engine.file_by_token(&id, token.as_deref(), look).await;
    let file = found.map_err(|refusal| {
        let status = match refusal {
            TokenRefusal::Invalid => StatusCode::UNAUTHORIZED,
            TokenRefusal::OtherFile => StatusCode::FORBIDDEN,
            TokenRefusal::Gone => StatusCode::NOT_FOUND,
            TokenRefusal::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        ProblemDocument(status, Problem::of(&refusal))
    })?;
    deliver(&rest, &file, &method, &headers).await
}

async fn deliver(
    rest: &Rest,
    file: &FileRow,
    method: &Method,
    asked: &HeaderMap,
) -> Result<Response, ProblemDocument> {
    let text = |name| asked.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let tag = etag(file);
    let matches = |list: &str| {
        list.split(',').any(|one| matches!(one.trim(), "*") || one.trim().trim_start_matches("W/") == tag)
    };
    if text(header::IF_NONE_MATCH).is_some_and(matches) {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        stamp(response.headers_mut(), file);
        return Ok(response);
    }
    // A part of what is no longer there would be glued to something else.
    let same = text(header::IF_RANGE).is_none_or(|known| known == tag);
    let size = file.size_bytes;
    let (status, bytes) = match part(text(header::RANGE).filter(|_| same), size) {
        Part::Whole => (StatusCode::OK, 0..size),
        Part::Some(bytes) => (StatusCode::PARTIAL_CONTENT, bytes),
        Part::Unsatisfiable => {
            let bad = Problem {
                code: "request.bad-range",
                blame: Blame::Caller,
                message: format!("the file has {size} bytes, and none of those that were asked for"),
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
            let content = rest.door.engine.files().content(file, bytes.clone()).await.map_err(problem)?;
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
