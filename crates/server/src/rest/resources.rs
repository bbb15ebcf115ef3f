//! Resources over REST: the content of one, for the console, which shows user interfaces of tools.

use super::auth::RestCaller;
use super::extract::{self, JsonBody, NoQuery};
use super::inquiries::{inquiry, result_of};
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_engine::{Answer, Inquiries};
use toolbooth_upstream::CallLink;
use toolbooth_wire::codes::{INVALID_PARAMS, RESOURCE_NOT_FOUND};
use utoipa::ToSchema;

const EXAMPLE: &str = "send {\"uri\": \"file:///readme.md\"}";
/// The maximum length of a URI, in bytes.
const MAX_URI: usize = 8 * 1024;

/// The resource to read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadBody {
    /// The URI, as a list or a tool shows it.
    #[schema(min_length = 1, max_length = 8192)]
    uri: String,
    /// Only this server is asked. Without it, the first one that has the resource answers.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.-]+$")]
    server: Option<String>,
}

/// The content of a resource.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResourceView {
    /// The result, as MCP clients receive it: `contents`.
    #[schema(value_type = Object)]
    resource: RawJson,
}

/// Reads a resource that the caller may use. Questions of its server are refused.
#[utoipa::path(
    post,
    path = "/resources/read",
    request_body(content = ReadBody, example = json!({ "uri": "file:///readme.md" })),
    responses(
        (status = 200, description = "The content.", body = ResourceView),
        (status = 404, description = "`resource.unknown`."),
        (status = 502, description = "The server failed."),
        (status = 504, description = "`call.timeout`."),
    )
)]
pub async fn read(
    State(inquiries): State<Arc<Inquiries>>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<ResourceView>, ProblemDocument> {
    let ReadBody { uri, server } = extract::object(&body, EXAMPLE)?;
    if uri.is_empty() || uri.len() > MAX_URI {
        return Err(extract::bad_body(format!("`uri` must have 1 to {MAX_URI} bytes"), EXAMPLE).into());
    }
    let only = server.map(|name| name.parse::<ServerName>()).transpose();
    let only = only.map_err(|error| extract::bad_body(format!("`server`: {error}"), EXAMPLE))?;
    let inquiry = inquiry(caller, &json!({ "uri": uri }), only);
    let answer = Box::pin(async move { inquiries.read_resource(inquiry, &CallLink::silent()).await }).await?;
    if let Answer::Error(error) = &answer
        && matches!(error.code, INVALID_PARAMS | RESOURCE_NOT_FOUND)
    {
        return Err(Problem {
            code: "resource.unknown",
            blame: Blame::Caller,
            message: "the server has no such resource".into(),
            hint: Some("use a URI that a list of resources or a tool shows".into()),
        }
        .into());
    }
    Ok(Json(ResourceView { resource: result_of(answer)? }))
}
