//! Tool calls over REST.

use super::RestState;
use super::auth::{RestCaller, with_persona};
use super::extract::{self, JsonBody, NoQuery, PathParam};
use super::problem::ProblemDocument;
use crate::mcp::trace::continued;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{IncomingCall, Warning};
use toolbooth_core::caller::{Admin, ClientFacts};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_engine::routing::{ATTEMPTS, PROVIDER};
use toolbooth_engine::{Answer, CallRequest, QuestionHandling};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::peer::ResultReading;
use utoipa::ToSchema;

/// The body of a call.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallBody {
    /// The arguments of the tool.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    arguments: Option<RawJson>,
    /// The persona for the call, if the headers name none.
    #[serde(default)]
    persona: Option<String>,
    /// The session that the call belongs to.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    session: Option<String>,
    /// How many seconds to wait for an approval, if the call needs one.
    #[serde(default)]
    #[schema(maximum = 600)]
    wait: Option<u64>,
}

/// The result of a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallView {
    /// The tool's result, as its server returned it.
    #[schema(value_type = Object)]
    pub result: RawJson,
    /// Arguments that were dropped from the call. Usually absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub warnings: Vec<Warning>,
    /// The provider that served the call, if the tool has providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub provider: Option<RawJson>,
    /// The number of attempts, if more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>)]
    pub attempts: Option<RawJson>,
}

impl CallView {
    /// A result with the provider and attempts from its `_meta`.
    fn of(result: RawJson, warnings: Vec<Warning>) -> Self {
        // Most results have neither; one search over the text finds those that may.
        let meta = result.as_str().contains("\"toolbooth/").then(|| result.member("_meta")).flatten();
        let from_meta = |key: &str| meta.as_ref().and_then(|meta| meta.member(key));
        let (provider, attempts) = (from_meta(PROVIDER), from_meta(ATTEMPTS));
        Self { result, warnings, provider, attempts }
    }
}

/// A call that has not run yet.
#[derive(Debug, Serialize, ToSchema)]
pub struct HeldView {
    /// The id of the held call.
    pub held: String,
    /// Why it is held: `approval` or `plan`.
    pub kind: &'static str,
    /// What to do next.
    pub message: String,
}

/// An example of a valid body.
const EXAMPLE: &str = "send {\"arguments\": {…}}";
/// Maximum of `wait`, in seconds.
const MAX_WAIT: u64 = 600;

/// Calls a tool.
///
/// A result with `isError` is returned with status 200. A call that waits for an approval is answered with 202.
#[utoipa::path(
    post,
    path = "/tools/{name}/call",
    params(("name" = String, Path, description = "Any name of the tool.", example = "demo_echo")),
    request_body(content = CallBody, description = "The arguments. Optional.", example = json!({ "arguments": { "text": "hello" } })),
    responses(
        (status = 200, description = "The result of the tool.", body = CallView),
        (status = 202, description = "The call has not run yet: it waits for approval, or it is a step of a plan.", body = HeldView),
        (status = 400, description = "The arguments do not match the schema, or the name matches several tools."),
        (status = 403, description = "A policy or a person refused the call."),
        (status = 404, description = "`call.unknown-tool`."),
        (status = 409, description = "The held call was already decided."),
        (status = 502, description = "The server failed."),
        (status = 429, description = "`call.over-rate`."),
        (status = 503, description = "No provider is available, or too many calls are waiting."),
        (status = 504, description = "`call.timeout`."),
    )
)]
pub async fn call(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    headers: HeaderMap,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Response, ProblemDocument> {
    let body: CallBody = extract::body(&body, EXAMPLE)?;
    if body.wait.is_some_and(|seconds| seconds > MAX_WAIT) {
        return Err(extract::bad_body(format!("`wait` must be at most {MAX_WAIT} seconds"), EXAMPLE).into());
    }
    let caller = with_persona(&rest, caller, body.persona.as_deref())?;
    // Administrators learn that a tool is in quarantine; for others it does not exist.
    let asked_for = (caller.admin == Admin::Yes).then(|| (caller.clone(), name.clone()));
    let incoming = IncomingCall {
        caller: extract::in_session(caller, body.session.as_deref())?,
        client: Arc::new(ClientFacts::default()),
        name,
        arguments: body.arguments,
        meta: continued(Vec::new(), Some(&headers)),
    };
    let request = CallRequest {
        incoming,
        readiness: None,
        round: Round::default(),
        progress: ProgressMode::Unwanted,
        questions: QuestionHandling::DuringCall,
        reading: ResultReading::Whole,
        approval_wait: body.wait.map(Duration::from_secs),
    };
    let answer = rest.door.engine.call(request, &CallLink::silent()).await;
    let answer = answer.map_err(|problem| match &asked_for {
        Some((caller, name)) => rest.door.engine.catalog().explain_quarantine(name, caller, problem),
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
            message: format!("server `{server}` asks a question that only an MCP client can answer"),
            hint: Some("call the tool from an MCP client".into()),
        }
        .into()),
    }
}
