//! Tools in quarantine over REST: seeing them, and letting one out.

use super::super::Rest;
use super::super::asked::{At, Nothing};
use super::super::problem::ProblemDocument;
use super::super::who::Keeper;
use super::view::{ToolView, view_apart};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

/// Tools in quarantine.
#[derive(Debug, Serialize, ToSchema)]
pub struct QuarantineList {
    /// The tools, by server and name, each with why.
    tools: Vec<ToolView>,
}

/// Lists the tools in quarantine, which nobody can see or use; for administrators.
#[utoipa::path(
    get,
    path = "/quarantine",
    responses(
        (status = 200, description = "The tools.", body = QuarantineList),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn quarantined(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    _: Nothing,
) -> Json<QuarantineList> {
    let engine = &rest.door.engine;
    engine.gathered(&caller).await;
    let apart = engine.quarantined();
    Json(QuarantineList { tools: apart.iter().map(|apart| view_apart(engine, apart, &caller)).collect() })
}

/// Lets a tool out of quarantine as it is now; for administrators. Another definition goes there again.
#[utoipa::path(
    post,
    path = "/tools/{name}/release",
    params(("name" = String, Path, description = "The name that it would be offered under, its server's own, or its canonical id.")),
    responses(
        (status = 200, description = "The tool that was let out.", body = ToolView),
        (status = 400, description = "`call.ambiguous-name`."),
        (status = 403, description = "`auth.admin-only`."),
        (status = 404, description = "`tool.not-quarantined`."),
    )
)]
pub async fn release(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    At(name): At<String>,
    _: Nothing,
) -> Result<Json<ToolView>, ProblemDocument> {
    let engine = &rest.door.engine;
    let released = engine.release(&name, &caller).await?;
    Ok(Json(view_apart(engine, &released, &caller)))
}
