//! The runs of jobs over REST: their history, and decisions about them.

use super::auth::RestCaller;
use super::extract::{self, JsonBody, NoQuery, PathParam, QueryParams, run_to_completion};
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use toolbooth_core::job::{PartOutcome, RunPart, RunRecord, RunStep};
use toolbooth_core::skill::{StepError, StepState};
use toolbooth_engine::{InterruptedStep, Jobs, RunPage, WorkList};
use utoipa::{IntoParams, ToSchema};

const DECIDE: &str = "send {\"interrupted\": \"repeat\"} or {\"interrupted\": \"skip\"}";
const CONFIRM: &str = "send {\"criterion\": 0, \"met\": true}";
/// Default number of runs on a page.
const DEFAULT_LIMIT: u32 = 50;
/// Maximum number of runs on a page.
const MAX_LIMIT: u32 = 200;

/// A run of a job. Times are in milliseconds since 1970.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunView {
    id: String,
    job: String,
    /// `pending`, `running`, `waiting`, `held`, `succeeded`, `failed`, `cancelled` or `missed`.
    status: &'static str,
    /// `schedule`, `manual`, `rerun` or `external`.
    trigger: &'static str,
    /// The user whom it runs as.
    owner: String,
    /// Who started it, if a person did.
    started_by: Option<String>,
    /// The time at which it was due.
    due_at: Option<i64>,
    created_at: i64,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    duration_ms: Option<u64>,
    /// How often a gateway took it up; more than once after an interruption.
    attempts: u32,
    #[schema(value_type = Object)]
    arguments: Map<String, Value>,
    /// Its plan, or its tasks in order.
    parts: Vec<RunPartView>,
    criteria: Vec<CriterionView>,
    /// The number of criteria that wait for a person.
    open_criteria: usize,
    error: Option<RunErrorView>,
    /// Why it was escalated; `failed:NAME` and `held:NAME` are by the policy of a task.
    escalations: Vec<String>,
}

/// A part of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunPartView {
    id: String,
    after: Vec<String>,
    /// `succeeded`, `failed` or `cancelled`; null until it has ended.
    outcome: Option<&'static str>,
    /// The task that a person completes.
    task: Option<String>,
    steps: Vec<RunStepView>,
}

/// A step of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunStepView {
    id: String,
    tool: String,
    /// `running`, `succeeded`, `failed`, `held`, `skipped`, `cancelled` or `waiting`.
    status: &'static str,
    call: Option<String>,
    /// The held call that waits for a person.
    held: Option<String>,
    /// Null if it was not started, because a step before it failed or waits.
    started_at: Option<i64>,
    /// Null until it has ended; a held step ends when it was decided and has run.
    ended_at: Option<i64>,
    /// What later steps can refer to. Not in lists.
    results: Option<Value>,
    error: Option<RunErrorView>,
}

/// Why a run or step failed, or is held.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunErrorView {
    code: String,
    message: String,
    hint: Option<String>,
}

/// An acceptance criterion of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct CriterionView {
    criterion: String,
    /// Whether it is met; null until a check or a person has said so.
    met: Option<bool>,
    /// Who confirmed it; null for the gateway.
    by: Option<String>,
    at: Option<i64>,
}

/// The view of a run.
pub(super) fn view(run: RunRecord) -> RunView {
    let open_criteria = run.open_criteria();
    let parts = run.parts.iter().map(|one| part(&run, one)).collect();
    let duration_ms = run.ended_ms.zip(run.started_ms).map(|(end, start)| (end - start).unsigned_abs());
    RunView {
        id: run.id.to_string(),
        job: run.name,
        status: run.state.as_str(),
        trigger: run.trigger.as_str(),
        owner: run.owner.user,
        started_by: run.started_by,
        due_at: run.due_ms,
        created_at: run.created_ms,
        started_at: run.started_ms,
        ended_at: run.ended_ms,
        duration_ms,
        attempts: run.attempts,
        arguments: run.arguments,
        open_criteria,
        parts,
        criteria: run
            .criteria
            .into_iter()
            .map(|record| CriterionView {
                criterion: record.criterion,
                met: record.met,
                by: record.by,
                at: record.at_ms,
            })
            .collect(),
        error: run.error.map(error),
        escalations: run.escalations,
    }
}

/// The entry of a list.
pub(super) fn entry(run: RunRecord) -> RunView {
    let mut entry = view(run);
    entry.parts.iter_mut().for_each(|part| leave_out_results(&mut part.steps));
    entry
}

/// Removes the results of steps, which lists do not have.
pub(super) fn leave_out_results(steps: &mut [RunStepView]) {
    steps.iter_mut().for_each(|step| step.results = None);
}

/// The steps of a part of a run that have started, in the order in which they run.
pub(super) fn steps(run: &RunRecord, part: &RunPart) -> Vec<RunStepView> {
    let steps = part.steps_in_order().into_iter();
    steps.map(|(id, step)| step_view(id.clone(), step.clone(), run)).collect()
}

fn part(run: &RunRecord, part: &RunPart) -> RunPartView {
    RunPartView {
        id: part.id.clone(),
        after: part.after.clone(),
        outcome: part.outcome.map(|outcome| match outcome {
            PartOutcome::Succeeded => "succeeded",
            PartOutcome::Failed => "failed",
            PartOutcome::Cancelled => "cancelled",
        }),
        task: part.task.map(|task| task.to_string()),
        steps: steps(run, part),
    }
}

fn step_view(id: String, step: RunStep, run: &RunRecord) -> RunStepView {
    let RunStep { tool, call, started_ms, record, .. } = step;
    let status = match record.as_ref().map(|record| record.state) {
        // The held calls of the run were withdrawn, its open calls cancelled, and no other step starts.
        None | Some(StepState::Held | StepState::Waiting) if run.is_ended_by_person() => {
            StepState::Cancelled.as_str()
        }
        None => "running",
        Some(state) => state.as_str(),
    };
    let (held, ended_at, results, wrong) = match record {
        Some(record) => (record.held, record.ended_ms, record.results, record.error),
        None => (None, None, None, None),
    };
    RunStepView {
        id,
        tool,
        status,
        call: call.map(|call| call.to_string()),
        held: held.map(|held| held.to_string()),
        started_at: Some(started_ms).filter(|at| *at > 0),
        ended_at,
        results,
        error: wrong.map(error),
    }
}

pub(super) fn error(error: StepError) -> RunErrorView {
    RunErrorView { code: error.code, message: error.message, hint: error.hint }
}

/// The page of a history.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RunListQuery {
    /// Maximum number of runs.
    limit: Option<u32>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

impl RunListQuery {
    /// The page of runs that it names.
    pub(super) fn page(self) -> RunPage {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        RunPage { before: self.cursor, limit }
    }
}

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobRunPage {
    /// The runs, newest first, without the results of their steps.
    runs: Vec<RunView>,
    /// The value of `cursor` for the next page, if there is one.
    next_cursor: Option<String>,
}

/// Lists the runs of a job, newest first.
#[utoipa::path(
    get,
    path = "/jobs/{name}/runs",
    params(("name" = String, Path, description = "The name of the job."), RunListQuery),
    responses(
        (status = 200, description = "A page of runs.", body = JobRunPage),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown`."),
    )
)]
pub async fn list(
    State(jobs): State<Arc<Jobs>>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    QueryParams(query): QueryParams<RunListQuery>,
) -> Result<Json<JobRunPage>, ProblemDocument> {
    let WorkList { entries, next: next_cursor, .. } = jobs.runs(&caller, &name, query.page()).await?;
    Ok(Json(JobRunPage { runs: entries.into_iter().map(entry).collect(), next_cursor }))
}

/// Shows a run of a job.
#[utoipa::path(
    get,
    path = "/jobs/{name}/runs/{id}",
    params(
        ("name" = String, Path, description = "The name of the job."),
        ("id" = String, Path, description = "The id of the run."),
    ),
    responses(
        (status = 200, description = "The run.", body = RunView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown` or `job.unknown-run`."),
    )
)]
pub async fn show(
    State(jobs): State<Arc<Jobs>>,
    RestCaller(caller): RestCaller,
    PathParam((name, id)): PathParam<(String, String)>,
    _: NoQuery,
) -> Result<Json<RunView>, ProblemDocument> {
    Ok(Json(view(jobs.show_run(&caller, &name, &id).await?)))
}

/// A decision about a held run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunDecisionBody {
    /// `repeat` calls the tools of interrupted and failed steps again; `skip` goes on without them.
    interrupted: String,
}

/// Continues a held run after a person's decision about its interrupted or failed steps.
#[utoipa::path(
    post,
    path = "/jobs/{name}/runs/{id}/decide",
    params(
        ("name" = String, Path, description = "The name of the job."),
        ("id" = String, Path, description = "The id of the run."),
    ),
    request_body(content = RunDecisionBody),
    responses(
        (status = 200, description = "The run.", body = RunView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown` or `job.unknown-run`."),
        (status = 409, description = "`job.not-held`."),
    )
)]
pub async fn decide(
    State(jobs): State<Arc<Jobs>>,
    RestCaller(caller): RestCaller,
    PathParam((name, id)): PathParam<(String, String)>,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<RunView>, ProblemDocument> {
    let RunDecisionBody { interrupted } = extract::object(&body, DECIDE)?;
    let decision = match interrupted.as_str() {
        "repeat" => InterruptedStep::Repeat,
        "skip" => InterruptedStep::Skip,
        _ => {
            let message = "`interrupted` must be `repeat` or `skip`".to_owned();
            return Err(extract::bad_body(message, DECIDE).into());
        }
    };
    let work = async move { jobs.decide_run(&caller, &name, &id, decision).await };
    Ok(Json(view(run_to_completion(work).await?)))
}

/// Whether a criterion is met.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CriterionBody {
    /// The number of the criterion, from 0.
    criterion: u32,
    /// Whether the run meets it.
    met: bool,
}

/// Records a person's answer whether a run meets an acceptance criterion.
///
/// A run that has succeeded fails if a criterion is not met.
#[utoipa::path(
    post,
    path = "/jobs/{name}/runs/{id}/criteria",
    params(
        ("name" = String, Path, description = "The name of the job."),
        ("id" = String, Path, description = "The id of the run."),
    ),
    request_body(content = CriterionBody),
    responses(
        (status = 200, description = "The run.", body = RunView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown`, `job.unknown-run` or `job.unknown-criterion`."),
    )
)]
pub async fn confirm(
    State(jobs): State<Arc<Jobs>>,
    RestCaller(caller): RestCaller,
    PathParam((name, id)): PathParam<(String, String)>,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<RunView>, ProblemDocument> {
    let CriterionBody { criterion, met } = extract::object(&body, CONFIRM)?;
    let work = async move { jobs.confirm(&caller, &name, &id, (criterion as usize, met)).await };
    Ok(Json(view(run_to_completion(work).await?)))
}
