//! Calls over REST.

use super::Rest;
use super::asked::{self, At, Nothing, Sent};
use super::problem::ProblemDocument;
use super::who::{Who, through};
use crate::mcp::trace::continued;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{Incoming, Warning};
use toolbooth_core::caller::{Admin, ClientFacts};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_engine::routing::{ATTEMPTS, PROVIDER};
use toolbooth_engine::{Answer, CallRequest, Rounds};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{Progress, Round};
use toolbooth_upstream::peer::Reading;
use utoipa::ToSchema;

/// The body of a call.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallBody {
    /// The arguments of the tool.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    arguments: Option<RawJson>,
    /// The persona to call through, where the headers name none.
    #[serde(default)]
    persona: Option<String>,
    /// The conversation that the call belongs to.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    session: Option<String>,
    /// How many seconds to wait for a person, if one has to agree.
    #[serde(default)]
    #[schema(maximum = 600)]
    wait: Option<u64>,
}

/// What a call came to.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallView {
    /// The tool's result, as its server gave it.
    #[schema(value_type = Object)]
    pub result: RawJson,
    /// What was left out of the call; mostly nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub warnings: Vec<Warning>,
    /// Which of the tool's providers served it, where it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub provider: Option<RawJson>,
    /// How many tries it took, if more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>)]
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
#[derive(Debug, Serialize, ToSchema)]
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

/// Calls a tool.
///
/// A result with `isError` is a result. A call that waits for a person is answered with 202.
#[utoipa::path(
    post,
    path = "/tools/{name}/call",
    params(("name" = String, Path, description = "Any name of the tool.", example = "demo_echo")),
    request_body(content = CallBody, description = "What to call it with; may be left out.", example = json!({ "arguments": { "text": "hello" } })),
    responses(
        (status = 200, description = "What the tool answered.", body = CallView),
        (status = 202, description = "Not made yet: a person has to agree, or it is a step of a plan.", body = HeldView),
        (status = 400, description = "The arguments do not fit, or the name fits several tools."),
        (status = 403, description = "A policy or a person said no."),
        (status = 404, description = "`call.unknown-tool`."),
        (status = 409, description = "It has been answered already."),
        (status = 502, description = "The tool's server failed."),
        (status = 429, description = "`call.over-rate`."),
        (status = 503, description = "No provider can serve it now, or too many wait for it."),
        (status = 504, description = "`call.timeout`."),
    )
)]
pub async fn call(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(name): At<String>,
    headers: HeaderMap,
    _: Nothing,
    Sent(body): Sent,
) -> Result<Response, ProblemDocument> {
    let body: CallBody = asked::body(&body, EXAMPLE)?;
    if body.wait.is_some_and(|seconds| seconds > MAX_WAIT) {
        return Err(asked::bad_body(format!("`wait` is at most {MAX_WAIT} seconds"), EXAMPLE).into());
    }
    let caller = through(&rest, caller, body.persona.as_deref())?;
    // Those who look after the gateway are told of a tool that is in quarantine; to others there is none.
    let asked_for = (caller.admin == Admin::Yes).then(|| (caller.clone(), name.clone()));
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
    let answer = rest.door.engine.call(request, &CallLink::silent()).await;
    let answer = answer.map_err(|problem| match &asked_for {
        Some((caller, name)) => rest.door.engine.explain_quarantine(name, caller, problem),
        None => problem,
    })?;
    match answer {
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
        Answer::Long { long, .. } => {
            let result = toolbooth_wire::meta::strip_modern(&long.whole());
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
