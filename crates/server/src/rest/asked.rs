//! What REST requests hold besides their caller: bodies, queries and ids, read strictly.

use super::Rest;
use super::problem::ProblemDocument;
use crate::body::{Ungathered, content_coding, gather};
use crate::identify::{MAX_SESSION, is_session};
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Problem};
use uuid::Uuid;

/// The query of a request; a wrong one is answered with a problem document.
pub struct Asked<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemDocument> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(bad_query(reason_of(&rejection)).into()),
        }
    }
}

/// What is wrong with a query, without the words of the library that read it.
fn reason_of(rejection: &QueryRejection) -> String {
    let text = rejection.body_text();
    let reason = text.rsplit_once("query string: ").map_or(text.as_str(), |(_, reason)| reason);
    format!("the query cannot be read: {reason}")
}

/// A request that asks nothing in its query.
pub struct Nothing;

impl<S: Send + Sync> FromRequestParts<S> for Nothing {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemDocument> {
        match parts.uri.query() {
            None | Some("") => Ok(Self),
            Some(query) => {
                let name = query.split(['=', '&']).next().unwrap_or_default();
                let name: String = name.chars().take(64).collect();
                Err(bad_query(format!("there is no parameter `{name}` here")).into())
            }
        }
    }
}

/// What stands in the path of a request.
pub struct At<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for At<T> {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemDocument> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(found)) => Ok(Self(found)),
            Err(rejection) => Err(Problem {
                code: "request.bad-path",
                blame: Blame::Caller,
                message: format!("the path cannot be read: {}", rejection.body_text()),
                hint: Some("names in it are percent-encoded UTF-8".into()),
            }
            .into()),
        }
    }
}

/// The body of a request, whole.
pub struct Sent(pub Bytes);

impl FromRequest<Rest> for Sent {
    type Rejection = ProblemDocument;

    async fn from_request(request: Request, rest: &Rest) -> Result<Self, ProblemDocument> {
        if let Some(coding) = content_coding(request.headers()) {
            return Err(Problem {
                code: "request.encoded-body",
                blame: Blame::Caller,
                message: format!("a body with Content-Encoding {coding} is not read"),
                hint: Some("send it without a Content-Encoding".into()),
            }
            .into());
        }
        let is_json = says_json(request.headers());
        match gather(request.into_body(), rest.door.body_limit).await {
            // Nothing says nothing, whatever it is called.
            Ok(body) if !is_json && !body.is_empty() => Err(not_json().into()),
            Ok(body) => Ok(Self(body)),
            Err(Ungathered::TooSlow) => Err(too_slow().into()),
            Err(Ungathered::TooLong) => Err(Problem {
                code: "request.too-large",
                blame: Blame::Caller,
                message: "the body is longer than a request may be".into(),
                hint: Some("files go to /files, and a call names them".into()),
            }
            .into()),
            Err(Ungathered::BrokenOff) => Err(bad_body("the body broke off".into(), "send it again").into()),
        }
    }
}

/// Whether a request says that its body is JSON. A page elsewhere cannot say so without asking first.
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
        message: "the body must be JSON, and Content-Type must say so".into(),
        hint: Some("send `Content-Type: application/json`".into()),
    }
}

/// A body that came too slowly.
pub fn too_slow() -> Problem {
    Problem {
        code: "request.too-slow",
        blame: Blame::Caller,
        message: "the body came too slowly".into(),
        hint: Some("send it without pauses; large files go to /files".into()),
    }
}

/// A query that cannot be understood.
pub fn bad_query(message: String) -> Problem {
    Problem { code: "request.bad-query", blame: Blame::Caller, message, hint: None }
}

/// A body that cannot be understood, and what a right one looks like.
pub fn bad_body(message: String, example: &str) -> Problem {
    Problem { code: "request.bad-body", blame: Blame::Caller, message, hint: Some(example.to_owned()) }
}

/// Reads a body; an empty one says nothing.
pub fn body<T: DeserializeOwned + Default>(text: &[u8], example: &str) -> Result<T, Problem> {
    if text.is_empty() {
        return Ok(T::default());
    }
    object(text, example)
}

/// Reads a body that has to be there: an object, as everything that is sent here is.
pub fn object<T: DeserializeOwned>(text: &[u8], example: &str) -> Result<T, Problem> {
    toolbooth_wire::strict::check(text).map_err(|error| bad_body(error.message, example))?;
    // A list of values in the right order would else be read as their fields.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad_body("the body is no object".into(), example));
    }
    serde_json::from_slice(text).map_err(|error| bad_body(format!("the body is wrong: {error}"), example))
}

/// Reads an id; what is none names nothing.
pub fn id(text: &str, code: &'static str, noun: &str) -> Result<Uuid, Problem> {
    text.parse().map_err(|_| Problem {
        code,
        blame: Blame::Caller,
        message: format!("there is no {noun} `{}`", text.chars().take(64).collect::<String>()),
        hint: Some("ids are written in full, as the lists show them".into()),
    })
}

/// The same caller in a session that the request names.
pub fn in_session(caller: Arc<Caller>, session: Option<&str>) -> Result<Arc<Caller>, Problem> {
    let Some(session) = session else { return Ok(caller) };
    check_session(session)?;
    Ok(Arc::new(Caller { session: Some(session.into()), ..Caller::clone(&caller) }))
}

/// Whether a session may have this name.
pub fn check_session(session: &str) -> Result<(), Problem> {
    if !is_session(session) {
        let message = format!("a session is named by 1 to {MAX_SESSION} bytes without control characters");
        return Err(bad_body(message, "send {\"session\": \"work\"}"));
    }
    Ok(())
}

/// Does work that goes on though the one who asked for it hangs up: a decision is never half heeded.
pub async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    tokio::spawn(work).await.unwrap_or_else(|_| {
        Err(Problem {
            code: "request.failed",
            blame: Blame::Gateway,
            message: "the gateway could not finish this".into(),
            hint: Some("its log tells more".into()),
        })
    })
}

/// Bytes as people compare them.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
