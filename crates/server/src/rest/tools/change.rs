//! Changed tools over REST: listing them, comparing them with the accepted definition, and accepting them.

use super::super::RestState;
use super::super::auth::{AdminCaller, RestCaller};
use super::super::extract::{self, JsonBody, NoQuery, PathParam, hex};
use super::super::problem::ProblemDocument;
use super::find;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolbooth_core::catalog::Tool;
use toolbooth_core::difference::{DefinitionDifference, unified};
use toolbooth_engine::Comparison;
use utoipa::ToSchema;

/// A tool whose definition differs from the accepted one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ChangedTool)]
pub struct ChangedToolView {
    /// The name of the tool for clients.
    name: String,
    /// The server of the tool.
    server: String,
    /// The server's own name for it.
    tool: String,
    /// The SHA-256 of the accepted definition.
    accepted: String,
    /// The SHA-256 of the current definition.
    now: String,
}

/// A list of changed tools.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedList {
    tools: Vec<ChangedToolView>,
}

/// Lists the tools whose definition differs from the accepted one.
#[utoipa::path(
    get,
    path = "/changes",
    responses((status = 200, description = "The changed tools that the caller may use.", body = ChangedList))
)]
pub async fn changes(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
) -> Json<ChangedList> {
    let engine = rest.engine();
    engine.catalog().wait_for_servers(&caller).await;
    let changed = engine.catalog().changed_tools(&caller).into_iter().filter_map(|tool| {
        let accepted = engine.catalog().pinned_before(&tool)?;
        Some(ChangedToolView {
            name: tool.exposed.to_string(),
            server: tool.server.name.to_string(),
            tool: tool.name.to_string(),
            accepted: hex(&accepted),
            now: hex(tool.digest()),
        })
    });
    Json(ChangedList { tools: changed.collect() })
}

/// A comparison of a tool with its accepted definition.
#[derive(Debug, Serialize, ToSchema)]
pub struct DiffView {
    /// The name of the tool for clients.
    name: String,
    /// `new` (never used), `same` or `changed`.
    state: &'static str,
    /// The accepted definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<AcceptedView>,
    /// The SHA-256 of the current definition.
    now: String,
    /// The differences; absent if the accepted definition was not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<ChangedPlaceView>>,
    /// The differences as text; hidden characters are escaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

/// An accepted definition.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedView {
    /// Its SHA-256.
    digest: String,
    at_ms: i64,
    /// The user who accepted it, or `first use`.
    by: String,
}

/// One difference.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedPlaceView {
    /// A JSON pointer into the definition.
    pointer: String,
    /// The old value.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// The new value.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

fn view(tool: &Tool, compared: Comparison) -> DiffView {
    let state = match (&compared.pin, compared.is_changed()) {
        (None, _) => "new",
        (Some(_), false) => "same",
        (Some(_), true) => "changed",
    };
    let Comparison { pin, digest, differences } = compared;
    let place = |DefinitionDifference { pointer, before, after }| ChangedPlaceView { pointer, before, after };
    DiffView {
        name: tool.exposed.to_string(),
        state,
        accepted: pin.map(|pin| AcceptedView { digest: hex(&pin.digest), at_ms: pin.pinned_ms, by: pin.by }),
        now: hex(&digest),
        diff: differences.as_deref().map(unified),
        changes: differences.map(|all| all.into_iter().map(place).collect()),
    }
}

/// Compares a tool with its accepted definition.
#[utoipa::path(
    get,
    path = "/tools/{name}/diff",
    params(("name" = String, Path, description = "Any name of the tool.", example = "demo_echo")),
    responses(
        (status = 200, description = "The differences.", body = DiffView),
        (status = 400, description = "`call.ambiguous-name`."),
        (status = 404, description = "`tool.unknown`."),
    )
)]
pub async fn diff(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<DiffView>, ProblemDocument> {
    let tool = find(&rest, &name, &caller).await?;
    Ok(Json(view(&tool, rest.engine().catalog().compare(&tool).await?)))
}

/// The body of an acceptance.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptBody {
    /// The SHA-256 of the reviewed definition. If the tool has changed since, it is not accepted.
    digest: Option<String>,
}

/// An example of a valid body.
const EXAMPLE: &str = "send {\"digest\": \"…\"}, with `now` of /tools/{name}/diff, or an empty body";

/// Accepts the current definition of a tool. Administrators only.
#[utoipa::path(
    post,
    path = "/tools/{name}/accept",
    params(("name" = String, Path, description = "Any name of the tool.", example = "demo_echo")),
    request_body(content = AcceptBody, description = "The reviewed definition. Optional."),
    responses(
        (status = 200, description = "The comparison after the acceptance.", body = DiffView),
        (status = 400, description = "`call.ambiguous-name`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`tool.unknown`."),
        (status = 409, description = "`tool.changed-again`."),
    )
)]
pub async fn accept(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<DiffView>, ProblemDocument> {
    let AcceptBody { digest } = extract::body(&body, EXAMPLE)?;
    let seen = digest.as_deref().map(read_digest).transpose()?;
    let tool = find(&rest, &name, &caller).await?;
    rest.engine().catalog().accept(&tool, seen, &caller).await?;
    Ok(Json(view(&tool, rest.engine().catalog().compare(&tool).await?)))
}

fn read_digest(text: &str) -> Result<[u8; 32], ProblemDocument> {
    let digest = toolbooth_core::hex::decode(text).and_then(|bytes| bytes.try_into().ok());
    digest
        .ok_or_else(|| extract::bad_body("`digest` must be a SHA-256 in hexadecimal".into(), EXAMPLE).into())
}
