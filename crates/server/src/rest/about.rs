//! The gateway itself over REST: whether it lives, who it takes the caller for, where tokens come from.

use super::asked::{At, Nothing};
use super::problem::{ProblemDocument, not_found};
use super::who::{By, Who};
use super::{ConfigView, Rest};
use crate::identify::Knock;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Uri};
use serde::Serialize;
use std::collections::BTreeMap;
use toolbooth_core::caller::{Admin, Groups};
use toolbooth_engine::record::TallyReport;
use utoipa::ToSchema;

/// Life.
#[derive(Debug, Serialize, ToSchema)]
pub struct HealthView {
    /// `ok`.
    status: &'static str,
    version: &'static str,
}

/// Says that the gateway lives.
#[utoipa::path(get, path = "/health", responses((status = 200, description = "It does.", body = HealthView)))]
pub async fn health(_: Nothing) -> Json<HealthView> {
    Json(HealthView { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// How calls ended since the gateway started.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallsView {
    done: u64,
    tool_errors: u64,
    refused: u64,
    failed: u64,
    cancelled: u64,
    held: u64,
    microseconds: u64,
}

/// Readiness; for administrators with numbers.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadyView {
    /// `ready`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// How many servers are in each state.
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<BTreeMap<&'static str, usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<CallsView>,
    /// What the configuration in force was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<ConfigView>,
}

/// Says that the gateway answers clients; to administrators, how its servers and calls do.
#[utoipa::path(get, path = "/ready", responses((status = 200, description = "It does.", body = ReadyView)))]
pub async fn ready(State(rest): State<Rest>, By(via): By, headers: HeaderMap, _: Nothing) -> Json<ReadyView> {
    let ready = ReadyView {
        status: "ready",
        revision: None,
        servers: None,
        sessions: None,
        calls: None,
        config: None,
    };
    let knock = Knock::Http { headers: &headers, persona: None, via };
    match rest.door.identify(knock).await {
        Ok(caller) if caller.admin == Admin::Yes => {}
        _ => return Json(ready),
    }
    let engine = &rest.door.engine;
    let mut states: BTreeMap<&'static str, usize> = BTreeMap::new();
    for managed in engine.servers().values() {
        *states.entry(managed.state().as_str()).or_default() += 1;
    }
    let TallyReport { done, tool_errors, refused, failed, cancelled, held, microseconds } =
        engine.tally().report();
    Json(ReadyView {
        revision: Some(engine.catalog().revision),
        servers: Some(states),
        sessions: Some(rest.door.sessions.len()),
        calls: Some(CallsView { done, tool_errors, refused, failed, cancelled, held, microseconds }),
        config: Some(rest.config.view().clone()),
        ..ready
    })
}

/// The groups of a caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum GroupsView {
    /// `all`: the owner of a local gateway.
    All(&'static str),
    /// These, besides `users`.
    Named(Vec<String>),
}

/// Who the gateway takes somebody for.
#[derive(Debug, Serialize, ToSchema)]
pub struct MeView {
    user: String,
    groups: GroupsView,
    /// Whether the caller looks after the gateway.
    admin: bool,
    /// The persona the caller looks through.
    persona: Option<String>,
    /// The personas that the caller may take up.
    personas: Vec<String>,
    compliance_level: Option<String>,
}

/// Says who the gateway takes the caller for.
#[utoipa::path(get, path = "/me", responses((status = 200, description = "The caller.", body = MeView)))]
pub async fn me(State(rest): State<Rest>, Who(caller): Who, _: Nothing) -> Json<MeView> {
    Json(MeView {
        user: caller.user.to_string(),
        groups: match &caller.groups {
            Groups::All => GroupsView::All("all"),
            Groups::Named(names) => GroupsView::Named(names.iter().cloned().collect()),
        },
        admin: caller.admin == Admin::Yes,
        persona: caller.persona_name().map(str::to_owned),
        personas: rest.door.identity.personas(&caller),
        compliance_level: caller.compliance_level.as_ref().map(|level| level.name.to_string()),
    })
}

/// Says where a client may get a token (RFC 9728).
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource",
    responses(
        (status = 200, description = "The protected resource.", body = Object),
        (status = 404, description = "`request.not-found`: this gateway takes no tokens."),
    )
)]
pub async fn described(State(rest): State<Rest>, headers: HeaderMap, uri: Uri) -> Response {
    describe(&rest, &headers, uri).await
}

/// Says where a client of one endpoint may get a token (RFC 9728).
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource/{*path}",
    params(("path" = String, Path, description = "The path of the endpoint.", example = "mcp")),
    responses(
        (status = 200, description = "The protected resource.", body = Object),
        (status = 404, description = "`request.not-found`: there is no such endpoint, or it takes no tokens."),
    )
)]
pub async fn endpoint_described(
    State(rest): State<Rest>,
    At(_path): At<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ProblemDocument> {
    Ok(describe(&rest, &headers, uri).await)
}

async fn describe(rest: &Rest, headers: &HeaderMap, uri: Uri) -> Response {
    match rest.door.identity.resource().describe(headers, uri.path()) {
        Some(document) => Json(document).into_response(),
        None => not_found(uri).await.into_response(),
    }
}
