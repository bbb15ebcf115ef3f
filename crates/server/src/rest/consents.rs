//! Consents over REST: approvals that are remembered, and taking them back.

use super::Rest;
use super::asked::{self, At, Nothing};
use super::problem::ProblemDocument;
use super::who::Who;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use toolbooth_core::consent::Consent;
use utoipa::ToSchema;

/// A consent as REST shows it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConsentView {
    id: String,
    user: String,
    server: String,
    tool: String,
    /// The SHA-256 of the tool's definition that it covers.
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    granted_by: String,
    created_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
}

fn view(consent: Consent) -> ConsentView {
    let Consent { id, user, server, tool, digest, session, granted_by, created_ms, expires_ms } = consent;
    let (id, server, digest) = (id.to_string(), server.to_string(), asked::hex(&digest));
    ConsentView { id, user, server, tool, digest, session, granted_by, created_ms, expires_ms }
}

/// Several consents.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConsentList {
    consents: Vec<ConsentView>,
}

/// Lists approvals that are remembered, newest first.
#[utoipa::path(
    get,
    path = "/consents",
    responses((status = 200, description = "The caller's own, or all for an administrator.", body = ConsentList))
)]
pub async fn list(
    State(rest): State<Rest>,
    Who(caller): Who,
    _: Nothing,
) -> Result<Json<ConsentList>, ProblemDocument> {
    let consents = rest.door.engine.consents_of(&caller).await?;
    Ok(Json(ConsentList { consents: consents.into_iter().map(view).collect() }))
}

/// Takes a remembered approval back: the next call of that tool asks again.
#[utoipa::path(
    delete,
    path = "/consents/{id}",
    params(("id" = String, Path, description = "The consent's id.")),
    responses(
        (status = 200, description = "What was taken back.", body = ConsentView),
        (status = 404, description = "`consent.unknown`."),
    )
)]
pub async fn revoke(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
) -> Result<Json<ConsentView>, ProblemDocument> {
    let id = asked::id(&id, "consent.unknown", "consent")?;
    Ok(Json(view(rest.door.engine.revoke_consent(&caller, id).await?)))
}
