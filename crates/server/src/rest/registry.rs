//! The registry over REST: everything that a caller may use in one response, and refreshing it.

use super::auth::{AdminCaller, RestCaller};
use super::extract::{NoQuery, QueryParams};
use super::job_view::JobView;
use super::jobs;
use super::problem::ProblemDocument;
use super::servers::{self, ServerView};
use super::skills::{self, SkillView};
use super::tasks::{self, TaskView};
use super::tools::{self, ToolListQuery, ToolPageView};
use super::{ReloadCause, RestState};
use axum::Json;
use axum::extract::State;
use http::Uri;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolbooth_core::caller::Caller;
use toolbooth_engine::servers::RefreshScope;
use toolbooth_upstream::StateReport;
use utoipa::{IntoParams, ToSchema};

/// Everything that a caller may use.
#[derive(Debug, Serialize, ToSchema)]
pub struct RegistryView {
    /// Tools in the summary view, at most 1000. `next_cursor` is the `cursor` of `GET /tools` for further ones.
    #[serde(flatten)]
    tools: ToolPageView,
    /// Skills.
    skills: Vec<SkillView>,
    /// Jobs, at most 500.
    jobs: Vec<JobView>,
    /// The `cursor` of `GET /jobs` for further jobs, if there are any.
    next_jobs_cursor: Option<String>,
    /// Tasks, at most 500.
    tasks: Vec<TaskView>,
    /// The `cursor` of `GET /tasks` for further tasks, if there are any.
    next_tasks_cursor: Option<String>,
    personas: Vec<PersonaView>,
    servers: Vec<ServerView>,
}

/// A persona that the caller may select.
#[derive(Debug, Serialize, ToSchema)]
pub struct PersonaView {
    name: String,
    /// The purpose of the persona.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Whether this request uses it.
    active: bool,
}

/// A list of personas.
#[derive(Debug, Serialize, ToSchema)]
pub struct PersonaList {
    personas: Vec<PersonaView>,
}

fn personas_of(rest: &RestState, caller: &Caller) -> Vec<PersonaView> {
    let current = caller.persona_name();
    let personas = rest.front_end.authenticator.described_personas(caller).into_iter();
    personas
        .map(|(name, description)| PersonaView { active: current == Some(name.as_str()), name, description })
        .collect()
}

/// The personas of a registry.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the parameters for the OpenAPI document; `ToolListQuery::read` parses them")]
pub struct RegistryParameters {
    /// Tools of any of these personas, and shared tools. `-shared` (also `!shared`, `no-shared`) excludes shared tools.
    /// Only personas that the caller may select.
    #[param(value_type = Option<Vec<String>>)]
    persona: Vec<String>,
}

/// Shows the caller's tools, skills, jobs, personas and servers in one response.
#[utoipa::path(
    get,
    path = "/registry",
    params(RegistryParameters),
    responses((status = 200, description = "The registry.", body = RegistryView))
)]
pub async fn show(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    uri: Uri,
) -> Result<Json<RegistryView>, ProblemDocument> {
    let query = ToolListQuery::of_personas(uri.query().unwrap_or_default())?;
    let callers = tools::views(&rest, &caller, &query.personas)?;
    rest.engine().catalog().wait_for_servers(&caller).await;
    let catalog = rest.engine().catalog().snapshot();
    let (jobs, next_jobs_cursor) = jobs::first_page(&rest, &callers, &query).await?;
    let (tasks, next_tasks_cursor) = tasks::first_page(&rest, &callers, &query).await?;
    Ok(Json(RegistryView {
        tools: tools::page(&rest, &catalog, &callers, &query).await,
        skills: skills::views(&rest, &callers, &query),
        jobs,
        next_jobs_cursor,
        tasks,
        next_tasks_cursor,
        personas: personas_of(&rest, &caller),
        servers: servers::all(&rest, &caller),
    }))
}

/// Lists the personas that the caller may select.
#[utoipa::path(get, path = "/personas", responses((status = 200, description = "The personas.", body = PersonaList)))]
pub async fn personas(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
) -> Json<PersonaList> {
    Json(PersonaList { personas: personas_of(&rest, &caller) })
}

/// The scope of a refresh.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RefreshQuery {
    /// Also refresh servers that wait for their next connection attempt or have not been started yet.
    force: Option<bool>,
}

/// The result of a refresh.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefreshView {
    /// The revision of the catalog after the refresh.
    revision: u64,
    /// The changes of the configuration.
    #[schema(value_type = Object)]
    configuration: Value,
    /// The servers that were refreshed.
    servers: Vec<RefreshedView>,
}

/// A server that was refreshed.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefreshedView {
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Reloads the configuration and refreshes the lists of servers. Administrators only.
#[utoipa::path(
    post,
    path = "/registry/refresh",
    params(RefreshQuery),
    responses(
        (status = 200, description = "The result.", body = RefreshView),
        (status = 400, description = "The configuration is not valid. The last good one stays in force."),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn refresh(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    QueryParams(RefreshQuery { force }): QueryParams<RefreshQuery>,
) -> Result<Json<RefreshView>, ProblemDocument> {
    let configuration = (rest.reload)(ReloadCause::Asked(caller.user.clone())).await?;
    let scope = if force == Some(true) { RefreshScope::All } else { RefreshScope::Connected };
    let servers = rest.engine().servers().refresh(scope).await.into_iter().map(|(name, state)| {
        let StateReport { state, reason, .. } = StateReport::from(&state);
        RefreshedView { name: name.to_string(), state, reason }
    });
    let servers = servers.collect();
    Ok(Json(RefreshView { revision: rest.engine().catalog().load().revision, configuration, servers }))
}
