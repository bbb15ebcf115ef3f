//! Prompts over REST: a list, and the messages of one prompt.

use super::RestState;
use super::auth::RestCaller;
use super::extract::{self, JsonBody, NoQuery, PathParam};
use super::inquiries::{inquiry, result_of};
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use toolbooth_core::catalog::ListKind;
use toolbooth_core::json::RawJson;
use toolbooth_engine::Inquiries;
use toolbooth_upstream::CallLink;
use utoipa::ToSchema;

const EXAMPLE: &str = "send {\"arguments\": {\"topic\": \"cats\"}}";
const COMPLETION_EXAMPLE: &str = "send {\"argument\": \"topic\", \"value\": \"ca\"}";

/// The prompts that a caller may use.
#[derive(Debug, Serialize, ToSchema)]
pub struct PromptList {
    /// The definitions, as MCP clients receive them: `name`, `description`, `arguments`.
    #[schema(value_type = Vec<Object>)]
    prompts: Vec<RawJson>,
}

/// The body of a request for a prompt.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptBody {
    /// The arguments of the prompt: texts by name.
    #[serde(default)]
    arguments: BTreeMap<String, String>,
}

/// A prompt that is filled in.
#[derive(Debug, Serialize, ToSchema)]
pub struct PromptView {
    /// The result, as MCP clients receive it: `description` and `messages`.
    #[schema(value_type = Object)]
    prompt: RawJson,
}

/// The body of a request for the values of an argument.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompletionBody {
    /// The name of the argument.
    argument: String,
    /// The text so far.
    #[serde(default)]
    value: String,
    /// The arguments that are filled in already: texts by name.
    #[serde(default)]
    arguments: BTreeMap<String, String>,
}

/// The values that an argument can have.
#[derive(Debug, Serialize, ToSchema)]
pub struct CompletionView {
    /// The result, as MCP clients receive it: `completion` with `values`, `total` and `hasMore`.
    #[schema(value_type = Object)]
    completion: RawJson,
}

/// Lists the prompts of servers, of the operator and of skills.
#[utoipa::path(
    get,
    path = "/prompts",
    responses((status = 200, description = "The prompts.", body = PromptList))
)]
pub async fn list(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
) -> Json<PromptList> {
    let catalog = rest.engine().catalog();
    catalog.wait_for_servers(&caller).await;
    Json(PromptList { prompts: catalog.load().list(ListKind::Prompts, &caller).entries() })
}

/// Fills in a prompt. Questions of its server are refused.
#[utoipa::path(
    post,
    path = "/prompts/{name}",
    params(("name" = String, Path, description = "The name of the prompt.", example = "brief")),
    request_body(content = PromptBody, description = "The arguments. Optional.", example = json!({ "arguments": { "topic": "cats" } })),
    responses(
        (status = 200, description = "The messages of the prompt.", body = PromptView),
        (status = 404, description = "`prompt.unknown`."),
        (status = 502, description = "The server failed."),
        (status = 504, description = "`call.timeout`."),
    )
)]
pub async fn get(
    State(inquiries): State<Arc<Inquiries>>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<PromptView>, ProblemDocument> {
    let PromptBody { arguments } = extract::body(&body, EXAMPLE)?;
    let inquiry = inquiry(caller, &json!({ "name": name, "arguments": arguments }), None);
    let answer = Box::pin(async move { inquiries.get_prompt(inquiry, &CallLink::silent()).await }).await?;
    Ok(Json(PromptView { prompt: result_of(answer)? }))
}

/// Asks the server of a prompt for values of an argument.
#[utoipa::path(
    post,
    path = "/prompts/{name}/complete",
    params(("name" = String, Path, description = "The name of the prompt.", example = "brief")),
    request_body(content = CompletionBody, example = json!({ "argument": "topic", "value": "ca" })),
    responses(
        (status = 200, description = "The values. None if the prompt is one of the gateway itself.", body = CompletionView),
        (status = 404, description = "`prompt.unknown`."),
        (status = 502, description = "The server failed, or completes no arguments."),
        (status = 504, description = "`call.timeout`."),
    )
)]
pub async fn complete(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<CompletionView>, ProblemDocument> {
    let CompletionBody { argument, value, arguments } = extract::object(&body, COMPLETION_EXAMPLE)?;
    let params = json!({
        "ref": { "type": "ref/prompt", "name": name },
        "argument": { "name": argument, "value": value },
        "context": { "arguments": arguments },
    });
    let inquiry = inquiry(caller, &params, None);
    let inquiries = rest.engine().inquiries().clone();
    let answer = Box::pin(async move { inquiries.complete(inquiry, &CallLink::silent()).await }).await?;
    let result = result_of(answer)?;
    // A server that returns no `completion` has no values to offer.
    Ok(Json(CompletionView { completion: result.member("completion").unwrap_or_else(RawJson::empty_object) }))
}
