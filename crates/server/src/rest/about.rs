//! The gateway over REST: health, readiness, the caller's identity, and OAuth metadata.

use super::auth::{self, RequestIngress, RestCaller};
use super::extract::{NoQuery, PathParam};
use super::problem::{ProblemDocument, not_found};
use super::{ConfigView, RestState};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Uri};
use serde::Serialize;
use std::collections::BTreeMap;
use toolbooth_core::caller::{Admin, Groups};
use toolbooth_engine::SessionUse;
use toolbooth_engine::call_metrics::CallMetricsReport;
use utoipa::ToSchema;

/// Health of the gateway.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HealthView)]
pub struct LivenessView {
    /// `ok`.
    status: &'static str,
    version: &'static str,
}

/// Reports that the gateway is running.
#[utoipa::path(get, path = "/health", responses((status = 200, description = "The gateway is running.", body = LivenessView)))]
pub async fn health(_: NoQuery) -> Json<LivenessView> {
    Json(LivenessView { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Numbers of calls by outcome since the gateway started.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallsView {
    done: u64,
    tool_errors: u64,
    refused: u64,
    failed: u64,
    cancelled: u64,
    held: u64,
    /// Total duration of all calls.
    microseconds: u64,
}

/// Readiness of the gateway, with details for administrators.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadyView {
    /// `ready`.
    status: &'static str,
    /// The revision of the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// Number of servers by state.
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<BTreeMap<&'static str, usize>>,
    /// Number of open legacy sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<CallsView>,
    /// The configuration files in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<ConfigView>,
}

/// Reports that the gateway is ready. Administrators also get the state of servers and calls.
#[utoipa::path(get, path = "/ready", responses(
    (status = 200, description = "The gateway is ready.", body = ReadyView),
    (status = 503, description = "`store.unreachable`: the database does not answer, so calls cannot be recorded."),
))]
pub async fn ready(
    State(rest): State<RestState>,
    RequestIngress(via): RequestIngress,
    headers: HeaderMap,
    _: NoQuery,
) -> Result<Json<ReadyView>, ProblemDocument> {
    rest.engine().check_store().await?;
    let ready = ReadyView {
        status: "ready",
        revision: None,
        servers: None,
        sessions: None,
        calls: None,
        config: None,
    };
    match auth::identify(&rest, (&headers, via), SessionUse::Read).await {
        Ok(caller) if caller.admin == Admin::Yes => {}
        _ => return Ok(Json(ready)),
    }
    let engine = rest.engine();
    let mut states: BTreeMap<&'static str, usize> = BTreeMap::new();
    for managed in engine.servers().all().values() {
        *states.entry(managed.state().as_str()).or_default() += 1;
    }
    let CallMetricsReport { done, tool_errors, refused, failed, cancelled, held, microseconds } =
        engine.calls().metrics().report();
    Ok(Json(ReadyView {
        revision: Some(engine.catalog().load().revision),
        servers: Some(states),
        sessions: Some(rest.front_end.sessions.len()),
        calls: Some(CallsView { done, tool_errors, refused, failed, cancelled, held, microseconds }),
        config: Some(rest.config.view().clone()),
        ..ready
    }))
}

/// The groups of a caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum GroupsView {
    /// `all`: the owner of a local gateway.
    All(&'static str),
    /// The names of the groups, besides `users`.
    Named(Vec<String>),
}

/// The caller, as the gateway identified them.
#[derive(Debug, Serialize, ToSchema)]
pub struct MeView {
    user: String,
    groups: GroupsView,
    /// Whether the caller is an administrator.
    admin: bool,
    /// The persona of the request.
    persona: Option<String>,
    /// The personas that the caller may select.
    personas: Vec<String>,
    compliance_level: Option<String>,
}

/// Shows the caller's identity.
#[utoipa::path(get, path = "/me", responses((status = 200, description = "The caller.", body = MeView)))]
pub async fn me(State(rest): State<RestState>, RestCaller(caller): RestCaller, _: NoQuery) -> Json<MeView> {
    Json(MeView {
        user: caller.user.to_string(),
        groups: match &caller.groups {
            Groups::All => GroupsView::All("all"),
            Groups::Named(names) => GroupsView::Named(names.iter().cloned().collect()),
        },
        admin: caller.admin == Admin::Yes,
        persona: caller.persona_name().map(str::to_owned),
        personas: rest.front_end.authenticator.personas(&caller),
        compliance_level: caller.compliance_level.as_ref().map(|level| level.name.to_string()),
    })
}

/// Returns the OAuth protected resource metadata of the gateway (RFC 9728).
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource",
    responses(
        (status = 200, description = "The metadata.", body = Object),
        (status = 404, description = "`request.not-found`: this gateway does not use tokens."),
    )
)]
pub async fn described(State(rest): State<RestState>, headers: HeaderMap, uri: Uri) -> Response {
    describe(&rest, &headers, uri).await
}

/// Returns the OAuth protected resource metadata of one endpoint (RFC 9728).
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource/{*path}",
    params(("path" = String, Path, description = "The path of the endpoint.", example = "mcp")),
    responses(
        (status = 200, description = "The metadata.", body = Object),
        (status = 404, description = "`request.not-found`: the endpoint does not exist or does not use tokens."),
    )
)]
pub async fn endpoint_described(
    State(rest): State<RestState>,
    PathParam(_path): PathParam<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ProblemDocument> {
    Ok(describe(&rest, &headers, uri).await)
}

async fn describe(rest: &RestState, headers: &HeaderMap, uri: Uri) -> Response {
    match rest.front_end.authenticator.resource().describe(headers, uri.path()) {
        Some(document) => Json(document).into_response(),
        None => not_found(uri).await.into_response(),
    }
}
