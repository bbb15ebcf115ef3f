//! Tool calls over REST: single calls, batches, questions of servers, and the record of calls.

mod batch;
mod questions;
mod records;
mod running;
mod sampling_draft;
mod sampling_question;
mod url_question;
mod waiting_question;

pub use batch::{__path_batch, batch};
pub use questions::{__path_answer, answer};
pub use records::{__path_list, __path_show, list, show};
pub use running::{__path_cancel, __path_running, RunningCalls, cancel, running};
pub use sampling_draft::{__path_draft, draft};

use super::RestState;
use super::auth::{RestCaller, with_persona};
use super::extract::{self, JsonBody, NoQuery, PathParam};
use super::problem::ProblemDocument;
use crate::mcp::client_calls::cancelled;
use crate::mcp::trace::continued;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use running::NewCall;
use serde::{Deserialize, Serialize};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{IncomingCall, Warning};
use toolbooth_core::caller::{Admin, Caller, ClientFacts};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_engine::parked::OngoingCall;
use toolbooth_engine::routing::{ATTEMPTS, PROVIDER};
use toolbooth_engine::{Answer, CallRequest, QuestionHandling};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::peer::ResultReading;
use utoipa::ToSchema;
use uuid::Uuid;
use waiting_question::QuestionView;

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
    /// The deadline of the call in milliseconds, instead of the tool's own. `limits.max_call_seconds` bounds it.
    #[serde(default)]
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
    /// Whether a person waits for the result and answers sampling requests of the server: with `POST /calls/{id}/answer`,
    /// after a draft of the gateway's model with `POST /calls/{id}/draft` if they want one. Otherwise, and if `llm` is not
    /// configured, such requests are refused. Those of servers in `llm.allow` are answered by the model.
    #[serde(default)]
    sampling: bool,
    /// A name that the caller chooses for this request. `GET /calls/running` shows it to the same user, so that a client
    /// finds its own call among others of the same tool, for example to cancel it.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    request: Option<String>,
}

impl CallBody {
    /// Checks what can be said of the call without its tool.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.arguments.as_ref().is_some_and(|arguments| !arguments.is_object()) {
            return Err(extract::bad_body("`arguments` must be an object".into(), EXAMPLE));
        }
        if self.wait.is_some_and(|seconds| seconds > MAX_WAIT) {
            return Err(extract::bad_body(format!("`wait` must be at most {MAX_WAIT} seconds"), EXAMPLE));
        }
        if self.timeout_ms == Some(0) {
            return Err(extract::bad_body("`timeout_ms` must be at least 1".into(), EXAMPLE));
        }
        if self.request.as_deref().is_some_and(|name| !is_request_name(name)) {
            let message = "`request` has 1 to 128 letters, digits, `-`, `_` or `.`".to_owned();
            return Err(extract::bad_body(message, EXAMPLE));
        }
        self.session.as_deref().map_or(Ok(()), extract::check_session)
    }

    /// The persona for the call.
    pub(super) fn persona(&self) -> Option<&str> {
        self.persona.as_deref()
    }
}

/// Whether a text is a name that a caller may choose for a request.
fn is_request_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// The result of a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallView {
    /// The id of the call; `GET /calls/{id}` shows its record.
    pub call: String,
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
    fn of(id: Uuid, result: RawJson, warnings: Vec<Warning>) -> Self {
        // Most results have neither; one search over the text finds those that may.
        let meta = result.as_str().contains("\"toolbooth/").then(|| result.member("_meta")).flatten();
        let from_meta = |key: &str| meta.as_ref().and_then(|meta| meta.member(key));
        let (provider, attempts) = (from_meta(PROVIDER), from_meta(ATTEMPTS));
        Self { call: id.to_string(), result, warnings, provider, attempts }
    }
}

/// A call that has not run yet.
#[derive(Debug, Serialize, ToSchema)]
pub struct HeldView {
    /// The id of the call; `GET /calls/{id}` shows its record, and `POST /calls/{id}/cancel` withdraws it.
    pub call: String,
    /// The id of the held call.
    pub held: String,
    /// Why it is held: `approval` or `plan`.
    pub kind: &'static str,
    /// What to do next.
    pub message: String,
}

/// The answer to a call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum CallAnswerView {
    /// It ran.
    Ran(CallView),
    /// It has not run yet.
    Held(HeldView),
    /// Its server asks the caller a question.
    Asked(Box<QuestionView>),
}

impl IntoResponse for CallAnswerView {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Ran(_) => StatusCode::OK,
            Self::Held(_) | Self::Asked(_) => StatusCode::ACCEPTED,
        };
        (status, Json(self)).into_response()
    }
}

/// An example of a valid body.
pub(super) const EXAMPLE: &str = "send {\"arguments\": {…}}";
/// Maximum of `wait`, in seconds.
const MAX_WAIT: u64 = 600;

/// Calls a tool.
///
/// A result with `isError` is returned with status 200. A call that waits for an approval is answered with 202, and
/// so is a call whose server asks a question: `POST /calls/{id}/answer` answers it.
#[utoipa::path(
    post,
    path = "/tools/{name}/call",
    params(("name" = String, Path, description = "Any name of the tool.", example = "demo_echo")),
    request_body(content = CallBody, description = "The arguments. Optional.", example = json!({ "arguments": { "text": "hello" } })),
    responses(
        (status = 200, description = "The result of the tool.", body = CallView),
        (status = 202, description = "The call has not ended: it waits for approval, it is a step of a plan, or its server asks a question.", body = CallAnswerView),
        (status = 400, description = "The arguments do not match the schema, the name matches several tools, or the server needs the caller's own key."),
        (status = 403, description = "A policy or a person refused the call."),
        (status = 404, description = "`call.unknown-tool`."),
        (status = 409, description = "The held call was already decided, or the call was cancelled: `call.cancelled`."),
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
    body.check()?;
    Ok(run(&rest, caller, name, body, &headers, ServerQuestions::Asked).await?.into_response())
}

/// Whether the caller can be asked questions of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerQuestions {
    /// The answer to the request is the question.
    Asked,
    /// They are refused.
    Refused,
}

/// Makes a call, whose body was checked.
pub(super) async fn run(
    rest: &RestState,
    caller: Arc<Caller>,
    name: String,
    body: CallBody,
    headers: &HeaderMap,
    questions: ServerQuestions,
) -> Result<CallAnswerView, ProblemDocument> {
    let caller = with_persona(rest, caller, body.persona.as_deref())?;
    // Administrators learn that a tool is in quarantine; for others it does not exist.
    let asked_for = (caller.admin == Admin::Yes).then(|| (caller.clone(), name.clone()));
    let (id, user) = (Uuid::now_v7(), caller.user.clone());
    let client = match questions {
        ServerQuestions::Asked => questions::client(),
        ServerQuestions::Refused => Arc::new(ClientFacts::default().with_followed_tasks()),
    };
    let incoming = IncomingCall {
        caller: extract::in_session(caller, body.session.as_deref())?,
        client,
        name,
        arguments: body.arguments,
        meta: continued(Vec::new(), Some(headers)),
    };
    let request = CallRequest {
        incoming,
        readiness: None,
        round: Round::default(),
        progress: ProgressMode::Observed,
        questions: match questions {
            ServerQuestions::Asked => QuestionHandling::ByPerson,
            ServerQuestions::Refused => QuestionHandling::DuringCall,
        },
        reading: ResultReading::Whole,
        approval_wait: body.wait.map(Duration::from_secs),
        timeout: body.timeout_ms.map(Duration::from_millis),
        id: Some(id),
    };
    let (link, events) = CallLink::new();
    let calls = rest.engine().calls().clone();
    // Without a model, a server that can do without sampling should know that it has to.
    if body.sampling && questions == ServerQuestions::Asked && calls.can_draft_sampling() {
        events.let_person_sample();
    }
    let at_ms = rest.engine().clock().now_ms();
    let begun = NewCall { tool: &request.incoming.name, at_ms, request: body.request };
    let entry = rest.running_calls.begin(id, &request.incoming.caller, begun);
    let work = Box::pin(async move {
        let call = pin!(calls.call(request, &link));
        tokio::select! {
            biased;
            () = entry.cancelled() => Err(cancelled(id, &calls.approvals().waiting_calls())),
            answer = call => answer,
        }
    });
    let answer = questions::follow(rest, &user, id, OngoingCall { work, events }).await;
    answer.map_err(|problem| {
        let problem = match &asked_for {
            Some((caller, name)) => rest.engine().catalog().explain_quarantine(name, caller, problem),
            None => problem,
        };
        problem.into()
    })
}

/// The answer of the engine as REST shows it.
fn finished(id: Uuid, answer: Answer) -> Result<CallAnswerView, Problem> {
    match answer {
        Answer::Result { result, warnings, .. } => {
            let result = toolbooth_wire::meta::strip_modern(&result);
            Ok(CallAnswerView::Ran(CallView::of(id, result, warnings)))
        }
        Answer::Held { id: held, text, kind } => Ok(CallAnswerView::Held(HeldView {
            call: id.to_string(),
            held: held.to_string(),
            kind: kind.as_str(),
            message: text,
        })),
        Answer::Error(error) => Err(Problem {
            code: "call.server-error",
            blame: Blame::Upstream,
            message: format!("the server answered with error {}: {}", error.code, error.message),
            hint: None,
        }),
        Answer::Long { long, .. } => {
            let result = toolbooth_wire::meta::strip_modern(&long.whole());
            Ok(CallAnswerView::Ran(CallView::of(id, result, Vec::new())))
        }
        Answer::InputRequired { server, .. } => Err(Problem {
            code: "call.needs-client",
            blame: Blame::Caller,
            message: format!("server `{server}` asks a question that only an MCP client can answer"),
            hint: Some("call the tool from an MCP client".into()),
        }),
    }
}
