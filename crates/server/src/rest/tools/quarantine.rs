//! Quarantined tools over REST: listing and releasing them.

use super::super::RestState;
use super::super::auth::AdminCaller;
use super::super::extract::{NoQuery, PathParam};
use super::super::problem::ProblemDocument;
use super::view::{ToolView, view_quarantined};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

/// Tools in quarantine.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuarantineList {
    /// The tools by server and name, each with its reason.
    tools: Vec<ToolView>,
}

/// Lists the tools in quarantine, which no client can see or call. Administrators only.
#[utoipa::path(
    get,
    path = "/quarantine",
    responses(
        (status = 200, description = "The tools.", body = QuarantineList),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn quarantined(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    _: NoQuery,
) -> Json<QuarantineList> {
    let engine = rest.engine();
    engine.catalog().wait_for_servers(&caller).await;
    let tools = engine.catalog().quarantined();
    Json(QuarantineList { tools: tools.iter().map(|tool| view_quarantined(engine, tool, &caller)).collect() })
}

/// Releases the current definition of a tool from quarantine. Administrators only. A changed definition is quarantined
/// again.
#[utoipa::path(
    post,
    path = "/tools/{name}/release",
    params(("name" = String, Path, description = "The name it would have for clients, its server's own name for it, or its canonical id.")),
    responses(
        (status = 200, description = "The released tool.", body = ToolView),
        (status = 400, description = "`call.ambiguous-name`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`tool.not-quarantined`."),
    )
)]
pub async fn release(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<ToolView>, ProblemDocument> {
    let engine = rest.engine();
    let released = engine.catalog().release(&name, &caller).await?;
    Ok(Json(view_quarantined(engine, &released, &caller)))
}
