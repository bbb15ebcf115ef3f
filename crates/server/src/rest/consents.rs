//! Consents over REST: listing and revoking remembered approvals.

use super::auth::RestCaller;
use super::extract::{self, NoQuery, PathParam};
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;
use toolbooth_core::consent::Consent;
use toolbooth_engine::Approvals;
use utoipa::ToSchema;

/// A remembered approval.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConsentView {
    id: String,
    user: String,
    server: String,
    tool: String,
    /// The SHA-256 of the tool definition that it covers.
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
    let (id, server, digest) = (id.to_string(), server.to_string(), extract::hex(&digest));
    ConsentView { id, user, server, tool, digest, session, granted_by, created_ms, expires_ms }
}

/// A list of consents.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConsentList {
    consents: Vec<ConsentView>,
}

/// Lists remembered approvals, newest first.
#[utoipa::path(
    get,
    path = "/consents",
    responses((status = 200, description = "The caller's own consents; all consents for an administrator.", body = ConsentList))
)]
pub async fn list(
    State(approvals): State<Arc<Approvals>>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
) -> Result<Json<ConsentList>, ProblemDocument> {
    let consents = approvals.consents(&caller).await?;
    Ok(Json(ConsentList { consents: consents.into_iter().map(view).collect() }))
}

/// Revokes a remembered approval: the next call of the tool asks again.
#[utoipa::path(
    delete,
    path = "/consents/{id}",
    params(("id" = String, Path, description = "The id of the consent.")),
    responses(
        (status = 200, description = "The revoked consent.", body = ConsentView),
        (status = 404, description = "`consent.unknown`."),
    )
)]
pub async fn revoke(
    State(approvals): State<Arc<Approvals>>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<ConsentView>, ProblemDocument> {
    let id = extract::id(&id, "consent.unknown", "consent")?;
    Ok(Json(view(approvals.revoke_consent(&caller, id).await?)))
}
