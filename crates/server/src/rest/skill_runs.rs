//! Runs of skills over REST: those whose steps waited for a person, which continue after the decision.

use super::RestState;
use super::auth::RestCaller;
use super::extract::{NoQuery, PathParam, QueryParams};
use super::job_runs::{self, RunErrorView, RunListQuery, RunStepView};
use super::problem::ProblemDocument;
use super::skills;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use toolbooth_core::job::RunRecord;
use toolbooth_engine::{Jobs, WorkList};
use utoipa::ToSchema;

/// A run of a skill whose steps waited for a person. Times are in milliseconds since 1970.
#[derive(Debug, Serialize, ToSchema)]
pub struct SkillRunView {
    /// The id of the call that ran the skill.
    id: String,
    skill: String,
    /// `pending`, `running`, `waiting`, `succeeded` or `failed`.
    status: &'static str,
    /// The user whom it runs as.
    owner: String,
    /// When it was held first.
    created_at: i64,
    ended_at: Option<i64>,
    #[schema(value_type = Object)]
    arguments: Map<String, Value>,
    /// The steps that have started, in the order in which they run.
    steps: Vec<RunStepView>,
    error: Option<RunErrorView>,
}

fn view(run: RunRecord) -> SkillRunView {
    SkillRunView {
        id: run.id.to_string(),
        status: run.state.as_str(),
        created_at: run.created_ms,
        ended_at: run.ended_ms,
        steps: run.parts.iter().flat_map(|part| job_runs::steps(&run, part)).collect(),
        skill: run.name,
        owner: run.owner.user,
        arguments: run.arguments,
        error: run.error.map(job_runs::error),
    }
}

/// A page of runs of a skill.
#[derive(Debug, Serialize, ToSchema)]
pub struct SkillRunPage {
    /// The runs, newest first, without the results of their steps.
    runs: Vec<SkillRunView>,
    /// The value of `cursor` for the next page, if there is one.
    next_cursor: Option<String>,
}

/// Lists the runs of a skill that waited for a person, newest first: the caller's own, or those of all users for an
/// administrator.
#[utoipa::path(
    get,
    path = "/skills/{name}/runs",
    params(("name" = String, Path, description = "The name of the skill.", example = "brief"), RunListQuery),
    responses(
        (status = 200, description = "A page of runs.", body = SkillRunPage),
        (status = 404, description = "`skill.unknown`."),
    )
)]
pub async fn list(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    QueryParams(query): QueryParams<RunListQuery>,
) -> Result<Json<SkillRunPage>, ProblemDocument> {
    let WorkList { entries, next: next_cursor, .. } =
        rest.engine().jobs().skill_runs(&caller, &name, query.page()).await?;
    // Runs of a skill that was removed meanwhile are still shown.
    if entries.is_empty() {
        rest.engine().catalog().wait_for_servers(&caller).await;
        skills::find(&rest, &name, &caller)?;
    }
    let entry = |run| {
        let mut entry = view(run);
        job_runs::leave_out_results(&mut entry.steps);
        entry
    };
    Ok(Json(SkillRunPage { runs: entries.into_iter().map(entry).collect(), next_cursor }))
}

/// Shows a run of a skill that waited for a person.
#[utoipa::path(
    get,
    path = "/skills/{name}/runs/{id}",
    params(
        ("name" = String, Path, description = "The name of the skill.", example = "brief"),
        ("id" = String, Path, description = "The id of the run."),
    ),
    responses(
        (status = 200, description = "The run.", body = SkillRunView),
        (status = 404, description = "`job.unknown-run`."),
    )
)]
pub async fn show(
    State(jobs): State<Arc<Jobs>>,
    RestCaller(caller): RestCaller,
    PathParam((name, id)): PathParam<(String, String)>,
    _: NoQuery,
) -> Result<Json<SkillRunView>, ProblemDocument> {
    Ok(Json(view(jobs.skill_run(&caller, &name, &id).await?)))
}
