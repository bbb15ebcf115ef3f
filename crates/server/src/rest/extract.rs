//! Extractors for REST requests: queries, paths and bodies are parsed strictly.

pub use toolbooth_core::hex::encode as hex;

use super::RestState;
use super::problem::ProblemDocument;
use crate::body::{BodyReadError, content_coding, read_body};
use crate::identify::{MAX_SESSION, is_session};
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use serde::de::DeserializeOwned;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::oneshot;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Problem};
use uuid::Uuid;

/// Extracts the query. An invalid query is rejected with a problem document.
pub struct QueryParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemDocument> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(bad_query(reason_of(&rejection)).into()),
        }
    }
}

/// The reason of a query rejection, without axum's introduction.
fn reason_of(rejection: &QueryRejection) -> String {
    let text = rejection.body_text();
    let reason = text.rsplit_once("query string: ").map_or(text.as_str(), |(_, reason)| reason);
    format!("the query cannot be read: {reason}")
}

/// Rejects requests that have a query.
pub struct NoQuery;

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemDocument> {
        match parts.uri.query() {
            None | Some("") => Ok(Self),
            Some(query) => {
                let name = query.split(['=', '&']).next().unwrap_or_default();
                let name: String = name.chars().take(64).collect();
                Err(bad_query(format!("unknown query parameter `{name}`")).into())
            }
        }
    }
}

/// Extracts the path parameters.
pub struct PathParam<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParam<T> {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemDocument> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(found)) => Ok(Self(found)),
            Err(rejection) => Err(Problem {
                code: "request.bad-path",
                blame: Blame::Caller,
                message: format!("the path cannot be read: {}", rejection.body_text()),
                hint: Some("names in the path must be percent-encoded UTF-8".into()),
            }
            .into()),
        }
    }
}

/// Extracts the whole body, which must be JSON or empty.
pub struct JsonBody(pub Bytes);

impl FromRequest<RestState> for JsonBody {
    type Rejection = ProblemDocument;

    async fn from_request(request: Request, rest: &RestState) -> Result<Self, ProblemDocument> {
        if let Some(coding) = content_coding(request.headers()) {
            return Err(Problem {
                code: "request.encoded-body",
                blame: Blame::Caller,
                message: format!("Content-Encoding {coding} is not supported"),
                hint: Some("send the body without a Content-Encoding".into()),
            }
            .into());
        }
        let is_json = says_json(request.headers());
        match read_body(request.into_body(), rest.front_end.body_limit).await {
            // An empty body needs no Content-Type.
            Ok(body) if !is_json && !body.is_empty() => Err(not_json().into()),
            Ok(body) => Ok(Self(body)),
            Err(BodyReadError::TooSlow) => Err(too_slow().into()),
            Err(BodyReadError::TooLong) => Err(Problem {
                code: "request.too-large",
                blame: Blame::Caller,
                message: "the body is too large".into(),
                hint: Some("upload files to /files and pass their names to the call".into()),
            }
            .into()),
            Err(BodyReadError::BrokenOff) => {
                Err(bad_body("the connection ended before the end of the body".into(), "send it again")
                    .into())
            }
        }
    }
}

/// Whether the request declares a JSON body. A web page of another origin cannot do so without a preflight.
fn says_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let kind = kinds.next().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json") && kinds.next().is_none()
}

fn not_json() -> Problem {
    Problem {
        code: "request.not-json",
        blame: Blame::Caller,
        message: "the body must be JSON with Content-Type `application/json`".into(),
        hint: Some("send `Content-Type: application/json`".into()),
    }
}

/// The error for a body that was sent too slowly.
pub fn too_slow() -> Problem {
    Problem {
        code: "request.too-slow",
        blame: Blame::Caller,
        message: "the body arrived too slowly".into(),
        hint: Some("send it without pauses; upload large files to /files".into()),
    }
}

/// The error for an invalid query.
pub fn bad_query(message: String) -> Problem {
    Problem {
        code: "request.bad-query",
        blame: Blame::Caller,
        message,
        hint: Some("`/docs` on the gateway shows the query parameters of each path and their values".into()),
    }
}

/// The error for a query parameter that the request does not have.
pub fn unknown_parameter(name: &str, known: &str) -> Problem {
    let name: String = name.chars().take(64).collect();
    bad_query(format!("unknown query parameter `{name}`: expected {known}"))
}

/// Parses the `limit` of a page. A number outside 1 to `max` is replaced by the nearest one.
pub fn page_limit(text: &str, max: usize) -> Result<usize, Problem> {
    let limit: usize = text.parse().map_err(|_| bad_query("`limit` must be a whole number".into()))?;
    Ok(limit.clamp(1, max))
}

/// The error for an invalid body, with an example of a valid one.
pub fn bad_body(message: String, example: &str) -> Problem {
    Problem { code: "request.bad-body", blame: Blame::Caller, message, hint: Some(example.to_owned()) }
}

/// Parses an optional body; an empty one gives the default.
pub fn body<T: DeserializeOwned + Default>(text: &[u8], example: &str) -> Result<T, Problem> {
    if text.is_empty() {
        return Ok(T::default());
    }
    object(text, example)
}

/// Parses a required body, which must be an object.
pub fn object<T: DeserializeOwned>(text: &[u8], example: &str) -> Result<T, Problem> {
    toolbooth_wire::strict::check(text).map_err(|error| bad_body(error.message, example))?;
    // serde would accept an array of the fields in order.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad_body("the body is not an object".into(), example));
    }
    serde_json::from_slice(text).map_err(|error| bad_body(format!("the body is not valid: {error}"), example))
}

/// Parses an id. An invalid id is reported as unknown.
pub fn id(text: &str, code: &'static str, noun: &str) -> Result<Uuid, Problem> {
    text.parse().map_err(|_| Problem {
        code,
        blame: Blame::Caller,
        message: format!("there is no {noun} `{}`", text.chars().take(64).collect::<String>()),
        hint: Some("give the whole id, as the list shows it".into()),
    })
}

/// The same caller in the session that the request names.
pub fn in_session(caller: Arc<Caller>, session: Option<&str>) -> Result<Arc<Caller>, Problem> {
    let Some(session) = session else { return Ok(caller) };
    check_session(session)?;
    Ok(Arc::new(Caller { session: Some(session.into()), ..Caller::clone(&caller) }))
}

/// Checks the name of a session.
pub fn check_session(session: &str) -> Result<(), Problem> {
    if !is_session(session) {
        let message = format!("a session name has 1 to {MAX_SESSION} bytes without control characters");
        return Err(bad_body(message, "send {\"session\": \"work\"}"));
    }
    Ok(())
}

/// Runs work to completion even if the client disconnects, so that a decision is never half applied.
pub async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    let (result, finished) = oneshot::channel();
    // Boxed, so that the code of a task is compiled once and not for every kind of work.
    let work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let _ = result.send(work.await);
    });
    tokio::spawn(work);
    // Nothing is sent if the work panicked.
    finished.await.unwrap_or_else(|_| {
        Err(Problem {
            code: "request.failed",
            blame: Blame::Gateway,
            message: "the request failed inside the gateway".into(),
            hint: Some("the gateway's log has the reason".into()),
        })
    })
}
