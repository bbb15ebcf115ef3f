//! Several calls in one request.

use super::super::RestState;
use super::super::auth::RestCaller;
use super::super::extract::{self, JsonBody, NoQuery};
use super::super::problem::{ProblemDocument, ProblemView};
use super::{CallAnswerView, CallBody, ServerQuestions, run};
use axum::Json;
use axum::extract::State;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use utoipa::ToSchema;

/// The maximum number of calls in a batch.
pub(super) const MAX_BATCH: usize = 100;
/// The size of the answers, which are kept until the last call has ended, after which no further call is made.
const MAX_RESULT_BYTES: usize = 64 << 20;
/// An example of a valid body.
const EXAMPLE: &str = "send {\"calls\": [{\"tool\": \"demo_echo\", \"arguments\": {…}}]}";

/// Several calls.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchBody {
    /// The calls, which are made one after the other.
    #[schema(max_items = 100)]
    calls: Vec<BatchCall>,
}

/// One call of a batch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchCall {
    /// Any name of the tool.
    tool: String,
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
    /// How many seconds to wait for an approval, if the call needs one. 0 by default.
    #[serde(default)]
    #[schema(maximum = 600)]
    wait: Option<u64>,
    /// The deadline of the call in milliseconds, instead of the tool's own.
    #[serde(default)]
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
}

/// The outcome of one call of a batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum BatchEntryView {
    /// The answer to the call.
    Answer(CallAnswerView),
    /// Why the call failed.
    Failed {
        /// The problem document that a single call would be answered with.
        problem: ProblemView,
    },
}

/// The outcomes of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchView {
    /// One outcome for each call, in the order of the calls.
    results: Vec<BatchEntryView>,
}

/// Makes several calls, one after the other.
///
/// Each is an ordinary call: a call that fails or is held does not affect the others. Questions of servers are
/// refused. If the client disconnects, the calls that have not begun are not made.
#[utoipa::path(
    post,
    path = "/calls/batch",
    request_body(content = BatchBody, example = json!({ "calls": [{ "tool": "demo_echo", "arguments": { "text": "hello" } }] })),
    responses(
        (status = 200, description = "The outcomes, in the order of the calls.", body = BatchView),
        (status = 400, description = "The body is not valid, or has more than 100 calls. No call was made."),
    )
)]
pub async fn batch(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    headers: HeaderMap,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<BatchView>, ProblemDocument> {
    let BatchBody { calls } = extract::object(&body, EXAMPLE)?;
    if calls.len() > MAX_BATCH {
        let message = format!("a batch has at most {MAX_BATCH} calls, not {}", calls.len());
        return Err(extract::bad_body(message, EXAMPLE).into());
    }
    let calls = checked(calls)?;
    let mut results = Vec::with_capacity(calls.len());
    let mut bytes = 0_usize;
    for (tool, body) in calls {
        if bytes > MAX_RESULT_BYTES {
            results.push(BatchEntryView::Failed { problem: ProblemDocument::from(too_large()).view() });
            continue;
        }
        let made = run(&rest, caller.clone(), tool, body, &headers, ServerQuestions::Refused).await;
        results.push(match made {
            Ok(answer) => {
                if let CallAnswerView::Ran(call) = &answer {
                    bytes = bytes.saturating_add(call.result.as_bytes().len());
                }
                BatchEntryView::Answer(answer)
            }
            Err(failed) => BatchEntryView::Failed { problem: failed.view() },
        });
    }
    Ok(Json(BatchView { results }))
}

/// Why a call was not made after answers that are too large together.
fn too_large() -> Problem {
    Problem {
        code: "request.too-large",
        blame: Blame::Caller,
        message: format!(
            "this call was not made: the answers before it have more than {} MiB together",
            MAX_RESULT_BYTES >> 20
        ),
        hint: Some("make the remaining calls in another batch".into()),
    }
}

/// The tools and bodies of the calls. One invalid body rejects the whole batch, before any call is made.
fn checked(calls: Vec<BatchCall>) -> Result<Vec<(String, CallBody)>, Problem> {
    let body_of = |(position, call): (usize, BatchCall)| {
        let BatchCall { tool, arguments, persona, session, wait, timeout_ms } = call;
        let wait = Some(wait.unwrap_or(0));
        let body = CallBody { arguments, persona, session, wait, timeout_ms, sampling: false, request: None };
        body.check().map_err(|problem| {
            extract::bad_body(format!("`calls[{position}]` is not valid: {}", problem.message), EXAMPLE)
        })?;
        Ok((tool, body))
    };
    calls.into_iter().enumerate().map(body_of).collect()
}
