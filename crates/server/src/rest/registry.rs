//! The registry over REST: everything that a caller may use in one answer, and having it read anew.

use super::asked::{Asked, Nothing};
use super::problem::ProblemDocument;
use super::servers::{self, ServerView};
use super::tools::{self, Narrowing, ToolPage};
use super::who::{Keeper, Who};
use super::{ReloadCause, Rest};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolbooth_core::caller::Caller;
use toolbooth_engine::refresh;
use toolbooth_upstream::StateReport;
use utoipa::{IntoParams, ToSchema};

/// The most tools that one answer holds; `/tools` gives all of them page by page.
const MOST_TOOLS: &str = "limit=1000";

/// Everything that a caller may use.
#[derive(Debug, Serialize, ToSchema)]
pub struct RegistryView {
    /// Tools in the summary view, at most 1000 of them.
    #[serde(flatten)]
    tools: ToolPage,
    /// Skills; there are none yet.
    skills: Vec<Value>,
    /// Jobs; there are none yet.
    jobs: Vec<Value>,
    personas: Vec<PersonaView>,
    servers: Vec<ServerView>,
}

/// A persona that the caller may take up.
#[derive(Debug, Serialize, ToSchema)]
pub struct PersonaView {
    name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Whether this request looks through it.
    active: bool,
}

/// Personas.
#[derive(Debug, Serialize, ToSchema)]
pub struct PersonaList {
    personas: Vec<PersonaView>,
}

fn open_to(rest: &Rest, caller: &Caller) -> Vec<PersonaView> {
    let worn = caller.persona_name();
    let personas = rest.door.identity.described_personas(caller).into_iter();
    personas
        .map(|(name, description)| PersonaView { active: worn == Some(name.as_str()), name, description })
        .collect()
}

/// Shows tools, skills, jobs, personas and servers of the caller in one answer.
#[utoipa::path(
    get,
    path = "/registry",
    responses((status = 200, description = "The registry.", body = RegistryView))
)]
pub async fn show(
    State(rest): State<Rest>,
    Who(caller): Who,
    _: Nothing,
) -> Result<Json<RegistryView>, ProblemDocument> {
    rest.door.engine.gathered(&caller).await;
    let catalog = rest.door.engine.catalog_now();
    let narrowing = Narrowing::read(MOST_TOOLS)?;
    Ok(Json(RegistryView {
        tools: tools::page(&rest, &catalog, std::slice::from_ref(&caller), &narrowing).await,
        skills: Vec::new(),
        jobs: Vec::new(),
        personas: open_to(&rest, &caller),
        servers: servers::all(&rest, &caller),
    }))
}

/// Lists the personas that the caller may take up.
#[utoipa::path(get, path = "/personas", responses((status = 200, description = "The personas.", body = PersonaList)))]
pub async fn personas(State(rest): State<Rest>, Who(caller): Who, _: Nothing) -> Json<PersonaList> {
    Json(PersonaList { personas: open_to(&rest, &caller) })
}

/// How much is done anew.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RefreshQuery {
    /// Whether servers are asked too that are waiting for their next try, or that nobody has asked for yet.
    force: Option<bool>,
}

/// What a refresh came to.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefreshView {
    /// The catalog's revision afterwards.
    revision: u64,
    /// What changed in the configuration.
    #[schema(value_type = Object)]
    configuration: Value,
    /// The servers that were asked.
    servers: Vec<RefreshedView>,
}

/// A server that was asked what it offers.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefreshedView {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Reads the configuration again and has servers list what they offer, now; for administrators.
#[utoipa::path(
    post,
    path = "/registry/refresh",
    params(RefreshQuery),
    responses(
        (status = 200, description = "What came of it.", body = RefreshView),
        (status = 400, description = "The configuration is wrong; the last good one stays."),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn refresh(
    State(rest): State<Rest>,
    Keeper(caller): Keeper,
    Asked(RefreshQuery { force }): Asked<RefreshQuery>,
) -> Result<Json<RefreshView>, ProblemDocument> {
    let configuration = (rest.reload)(ReloadCause::Asked(caller.user.clone())).await?;
    let asked = if force == Some(true) { refresh::Asked::All } else { refresh::Asked::Connected };
    let servers = rest.door.engine.refresh(asked).await.into_iter().map(|(name, state)| {
        let StateReport { state, reason, .. } = StateReport::from(&state);
        RefreshedView { name: name.to_string(), state, reason }
    });
    let servers = servers.collect();
    Ok(Json(RefreshView { revision: rest.door.engine.catalog().revision, configuration, servers }))
}
