//! Calls over REST.

use super::Rest;
use super::asked;
use super::problem::ProblemDocument;
use super::who::{Who, through};
use crate::mcp::trace::continued;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{Incoming, Warning};
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_engine::routing::{ATTEMPTS, PROVIDER};
use toolbooth_engine::{Answer, CallRequest, Rounds};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{Progress, Round};
use toolbooth_upstream::peer::Reading;

/// The body of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallBody {
    #[serde(default)]
    arguments: Option<RawJson>,
    #[serde(default)]
    persona: Option<String>,
    #[serde(default)]
    session: Option<String>,
    #[serde(default)]
    wait: Option<u64>,
}

/// What a call came to.
#[derive(Debug, Serialize)]
pub struct CallView {
    /// The tool's result, as its server gave it.
    pub result: RawJson,
    /// What was left out of the call; mostly nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Which of the tool's providers served it, where it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<RawJson>,
    /// How many tries it took, if more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<RawJson>,
}

impl CallView {
    /// A result with what it says of how it came about.
    fn of(result: RawJson, warnings: Vec<Warning>) -> Self {
        // Most results say nothing of the kind: one search over the text settles them.
        let meta = result.as_str().contains("\"toolbooth/").then(|| result.member("_meta")).flatten();
        let said = |key: &str| meta.as_ref().and_then(|meta| meta.member(key));
        let (provider, attempts) = (said(PROVIDER), said(ATTEMPTS));
        Self { result, warnings, provider, attempts }
    }
}

/// A call that was not made yet.
#[derive(Debug, Serialize)]
pub struct HeldView {
    /// The held call.
    pub held: String,
    /// Why it is held: `approval` or `plan`.
    pub kind: &'static str,
    /// What to do about it.
    pub message: String,
}

/// What a right body looks like.
const EXAMPLE: &str = "send {\"arguments\": {…}}";
/// The longest that a call may be told to wait for a person.
const MAX_WAIT: u64 = 600;

/// `POST /tools/{name}/call`.
pub async fn call(
    State(rest): State<Rest>,
    Who(caller): Who,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ProblemDocument> {
    let body: CallBody = asked::body(&body, EXAMPLE)?;
    if body.wait.is_some_and(|seconds| seconds > MAX_WAIT) {
        return Err(asked::bad_body(format!("`wait` is at most {MAX_WAIT} seconds"), EXAMPLE).into());
    }
    let caller = through(&rest, caller, body.persona.as_deref())?;
    let incoming = Incoming {
        caller: asked::in_session(caller, body.session.as_deref())?,
        client: Arc::new(ClientFacts::default()),
        name,
        arguments: body.arguments,
        meta: continued(Vec::new(), Some(&headers)),
    };
    let request = CallRequest {
        incoming,
        round: Round::default(),
        progress: Progress::Unwanted,
        rounds: Rounds::Driven,
        reading: Reading::Whole,
        patience: body.wait.map(Duration::from_secs),
    };
    match rest.door.engine.call(request, &CallLink::silent()).await? {
        Answer::Result { result, warnings, .. } => {
            let result = toolbooth_wire::meta::strip_modern(&result);
            Ok(Json(CallView::of(result, warnings)).into_response())
        }
        Answer::Held { id, text, kind } => {
            let held = HeldView { held: id.to_string(), kind: kind.as_str(), message: text };
            Ok((StatusCode::ACCEPTED, Json(held)).into_response())
        }
        Answer::Error(error) => Err(Problem {
            code: "call.server-error",
            blame: Blame::Upstream,
            message: format!("the server answered with error {}: {}", error.code, error.message),
            hint: None,
        }
        .into()),
        Answer::Stream { stream, .. } => {
            let mut text = Vec::new();
            let mut body = stream.body;
            while let Some(chunk) = body.next().await {
                text.extend_from_slice(&chunk.map_err(|error| Problem::of(&error))?);
            }
            text.pop(); // The closing brace of the envelope.
            let result = RawJson::parse(text).map_err(|error| asked::bad_body(error.to_string(), EXAMPLE))?;
            Ok(Json(CallView::of(result, Vec::new())).into_response())
        }
        Answer::InputRequired { server, .. } => Err(Problem {
            code: "call.needs-client",
            blame: Blame::Caller,
            message: format!("server `{server}` wants to ask something that only an MCP client can answer"),
            hint: Some("call the tool from an MCP client".into()),
        }
        .into()),
    }
}
