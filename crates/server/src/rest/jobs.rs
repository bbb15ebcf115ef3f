//! Jobs over REST: lists, creates, changes, schedules and runs them.

use super::RestState;
use super::auth::{RequestIngress, RestCaller};
use super::events::{self, JobEvents, StreamedEvent};
use super::extract::{self, JsonBody, NoQuery, PathParam, QueryParams, bad_query, run_to_completion};
use super::item_request::ItemRequest;
use super::job_runs::{self, RunView};
use super::job_view::{self, JobView};
use super::problem::ProblemDocument;
use super::tools::{self, ToolListQuery};
use super::work_items::{self, MAX_LIMIT, WorkFilters};
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode, Uri};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{JobState, RunTrigger};
use toolbooth_engine::{JobQuery, RunPage, ScheduleSwitch, WorkList};
use utoipa::{IntoParams, ToSchema};

const CREATE: &str = "send {\"name\": \"brief\", \"plan\": [{\"id\": \"one\", \"tool\": \"mail_list\"}]}";
const TRANSITION: &str = "send {\"target_status\": \"scheduled\", \"expected_updated_at\": 1}";
const RUN: &str = "send {\"arguments\": {}}, or an empty body";
/// Number of runs in the view of a job.
const SHOWN_RUNS: u32 = 10;
/// Maximum number of upcoming times.
const MAX_TIMES: u32 = 100;

/// A page of jobs, without their plans, criteria and policies.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobPage {
    /// Number of jobs on this page.
    count: usize,
    /// The jobs, by name.
    jobs: Vec<JobView>,
    /// The value of `cursor` for the next page, if there is one.
    next_cursor: Option<String>,
}

/// The filters of a list of jobs.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the parameters for the OpenAPI document; `JobListQuery::read` parses them")]
pub struct JobParameters {
    /// States, separated by commas: `draft`, `scheduled`, `running`, `succeeded`, `failed`, `cancelled`.
    #[param(value_type = Option<String>)]
    status: Option<String>,
    /// Only jobs of this user.
    #[param(value_type = Option<String>)]
    owner: Option<String>,
    /// Jobs for any of these personas. `-shared` (also `!shared`, `no-shared`) excludes jobs that are not in a
    /// persona's folder. Only personas that the caller may select.
    #[param(value_type = Option<Vec<String>>)]
    persona: Vec<String>,
    /// The `next_cursor` of the previous page.
    #[param(value_type = Option<String>)]
    cursor: Option<String>,
    /// Maximum number of jobs.
    #[param(value_type = Option<u32>)]
    limit: Option<u32>,
}

struct JobListQuery {
    personas: ToolListQuery,
    query: JobQuery,
}

impl JobListQuery {
    fn read(query: &str) -> Result<Self, Problem> {
        let WorkFilters { personas, owner, after, limit, others } = WorkFilters::read(query)?;
        let shared = personas.query.shared;
        let mut query = JobQuery { owner, after, limit, shared, ..JobQuery::default() };
        for (key, value) in others {
            if key != "status" {
                let known = "`status`, `owner`, `persona`, `cursor` or `limit`";
                return Err(extract::unknown_parameter(&key, known));
            }
            for word in value.split(',') {
                query.states.push(read_state(word)?);
            }
        }
        Ok(Self { personas, query })
    }
}

fn read_state(word: &str) -> Result<JobState, Problem> {
    let words = JobState::ALL.map(JobState::as_str).join(", ");
    word.parse().map_err(|_| bad_query(format!("`status` must be one of {words}")))
}

/// Lists the jobs that the caller may see.
#[utoipa::path(
    get,
    path = "/jobs",
    params(JobParameters),
    responses(
        (status = 200, description = "A page of jobs.", body = JobPage),
        (status = 403, description = "`persona.unknown`."),
    )
)]
pub async fn list(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    uri: Uri,
) -> Result<Json<JobPage>, ProblemDocument> {
    let JobListQuery { personas, query } = JobListQuery::read(uri.query().unwrap_or_default())?;
    let callers = tools::views(&rest, &caller, &personas.personas)?;
    let (jobs, next_cursor) = page(&rest, &callers, &query).await?;
    Ok(Json(JobPage { count: jobs.len(), jobs, next_cursor }))
}

/// The jobs that any of these callers may see. They are one user with different personas.
pub(super) async fn page(
    rest: &RestState,
    callers: &[Arc<Caller>],
    query: &JobQuery,
) -> Result<(Vec<JobView>, Option<String>), ProblemDocument> {
    let engine = rest.engine();
    if let Some(caller) = callers.first() {
        engine.catalog().wait_for_servers(caller).await;
    }
    let WorkList { entries, next, .. } = engine.jobs().list(callers, query).await?;
    let Some(caller) = callers.first() else { return Ok((Vec::new(), None)) };
    let mut tasks = engine.jobs().task_finder(caller);
    let mut views = Vec::with_capacity(entries.len());
    for job in &entries {
        views.push(job_view::view_with(rest, caller, job, &mut tasks).await?.without_bodies());
    }
    Ok((views, next.as_deref().map(work_items::cursor)))
}

/// The first page of jobs, for the registry, and the cursor of the next one.
pub(super) async fn first_page(
    rest: &RestState,
    callers: &[Arc<Caller>],
    personas: &ToolListQuery,
) -> Result<(Vec<JobView>, Option<String>), ProblemDocument> {
    let query = JobQuery { limit: MAX_LIMIT, shared: personas.query.shared, ..JobQuery::default() };
    page(rest, callers, &query).await
}

/// The definition of a job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the body for the OpenAPI document; the engine reads and checks it")]
pub struct JobBody {
    /// The name: up to 128 bytes, without slashes.
    name: String,
    summary: Option<String>,
    description: Option<String>,
    /// The personas that may see it; `*` stands for every caller.
    personas: Option<Vec<String>>,
    required_skills: Option<Vec<String>>,
    required_tools: Option<Vec<String>>,
    /// Its tasks: `{task, depends_on, description, metadata}`.
    #[schema(value_type = Option<Vec<Object>>)]
    task_graph: Option<Vec<Value>>,
    /// Its steps, instead of tasks: `{id, tool, arguments, after, when}`.
    #[schema(value_type = Option<Vec<Object>>)]
    plan: Option<Value>,
    /// When it is due: `{cron | frequency, interval, timezone, start_date, end_date, grace_seconds}`.
    #[schema(value_type = Option<Object>)]
    recurrence: Option<Value>,
    /// Sentences, or checks `{criterion, step, path, equals, at_least}`.
    acceptance_criteria: Option<Vec<Value>>,
    /// `{level, contact, timeframe, triggers, actions, notes, auto_escalate}`.
    #[schema(value_type = Option<Object>)]
    escalation_policy: Option<Value>,
    accepts_external_requests: Option<bool>,
}

/// Creates a job that belongs to the caller, as a draft.
#[utoipa::path(
    post,
    path = "/jobs",
    request_body(content = JobBody),
    responses(
        (status = 201, description = "The job.", body = JobView),
        (status = 409, description = "`job.taken`."),
    )
)]
pub async fn create(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<JobView>), ProblemDocument> {
    let definition = work_items::read_definition(&body, CREATE)?;
    let (jobs, by) = (rest.engine().jobs().clone(), caller.clone());
    let created = run_to_completion(async move { jobs.create(&by, &definition).await }).await?;
    Ok((StatusCode::CREATED, Json(job_view::view(&rest, &caller, &created).await?)))
}

/// What to include in the view of a job.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct JobShowQuery {
    /// Separated by commas: `schedule` (the next times), `runs` (the latest runs), `events` (the latest events), `webhook`
    /// (how another system starts it).
    include: Option<String>,
    /// Number of upcoming times; 5 by default.
    count: Option<u32>,
}

/// Shows a job.
#[utoipa::path(
    get,
    path = "/jobs/{name}",
    params(("name" = String, Path, description = "The name of the job."), JobShowQuery),
    responses(
        (status = 200, description = "The job.", body = JobView),
        (status = 404, description = "`job.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    QueryParams(query): QueryParams<JobShowQuery>,
) -> Result<Json<JobView>, ProblemDocument> {
    let jobs = rest.engine().jobs();
    let job = jobs.get(&caller, &name).await?;
    let mut view = job_view::view(&rest, &caller, &job).await?;
    for word in query.include.iter().flat_map(|list| list.split(',')).map(str::trim) {
        match word {
            "" => {}
            "schedule" => {
                let count = query.count.unwrap_or(5).clamp(1, MAX_TIMES);
                view.schedule = Some(job_view::schedule(&rest, &job, count as usize));
            }
            "runs" if view.is_own(&caller) => {
                let page = RunPage { before: None, limit: SHOWN_RUNS };
                let runs = jobs.runs(&caller, &name, page).await?;
                view.runs = Some(runs.entries.into_iter().map(job_runs::entry).collect());
            }
            "runs" => view.runs = Some(Vec::new()),
            "webhook" if view.is_own(&caller) => {
                let access = jobs.external_access(&caller, &job).await?;
                view.webhook = access.map(job_view::webhook);
            }
            "webhook" => {}
            "events" => view.events = Some(events::of_job(&rest, &caller, &name)),
            other => {
                let shown: String = other.chars().take(64).collect();
                let message =
                    format!("`include` may have `schedule`, `runs`, `events` and `webhook`, not `{shown}`");
                return Err(bad_query(message).into());
            }
        }
    }
    Ok(Json(view))
}

/// A change of a job's definition. A null removes an optional field.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the body for the OpenAPI document; the engine reads and checks it")]
pub struct JobPatchBody {
    /// The `updated_at` of the version that the change is based on; without it, the change is always made.
    expected_updated_at: Option<i64>,
    summary: Option<String>,
    description: Option<String>,
    personas: Option<Vec<String>>,
    required_skills: Option<Vec<String>>,
    required_tools: Option<Vec<String>>,
    #[schema(value_type = Option<Vec<Object>>)]
    task_graph: Option<Vec<Value>>,
    #[schema(value_type = Option<Vec<Object>>)]
    plan: Option<Value>,
    #[schema(value_type = Option<Object>)]
    recurrence: Option<Value>,
    acceptance_criteria: Option<Vec<Value>>,
    #[schema(value_type = Option<Object>)]
    escalation_policy: Option<Value>,
    accepts_external_requests: Option<bool>,
}

/// Changes the definition of a job that a request created.
#[utoipa::path(
    patch,
    path = "/jobs/{name}",
    params(("name" = String, Path, description = "The name of the job.")),
    request_body(content = JobPatchBody),
    responses(
        (status = 200, description = "The job.", body = JobView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown`."),
        (status = 409, description = "`job.changed`: it was changed after `expected_updated_at`; `job.in-manifest`."),
    )
)]
pub async fn patch(
    State(rest): State<RestState>,
    ItemRequest { caller, id: name, body }: ItemRequest,
) -> Result<Json<JobView>, ProblemDocument> {
    let (expected, patch) = work_items::read_patch(&body)?;
    let (jobs, by) = (rest.engine().jobs().clone(), caller.clone());
    let work = async move { jobs.patch(&by, &name, &patch, expected).await };
    let job = run_to_completion(work).await?;
    Ok(Json(job_view::view(&rest, &caller, &job).await?))
}

/// Deletes a job that a request created, and its runs.
#[utoipa::path(
    delete,
    path = "/jobs/{name}",
    params(("name" = String, Path, description = "The name of the job.")),
    responses(
        (status = 200, description = "The deleted job.", body = JobView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown`."),
        (status = 409, description = "`job.running` or `job.in-manifest`."),
    )
)]
pub async fn delete(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<JobView>, ProblemDocument> {
    let (jobs, by) = (rest.engine().jobs().clone(), caller.clone());
    let deleted = run_to_completion(async move { jobs.delete(&by, &name).await }).await?;
    Ok(Json(job_view::view(&rest, &caller, &deleted).await?))
}

/// The body of a transition.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobTransitionBody {
    /// `scheduled`, `running`, `succeeded`, `failed` or `cancelled`.
    target_status: String,
    /// The `updated_at` of the version that the change is based on; without it, the change is always made.
    expected_updated_at: Option<i64>,
}

/// Changes the state of a job: schedules it, runs it, or ends it.
#[utoipa::path(
    post,
    path = "/jobs/{name}/transition",
    params(("name" = String, Path, description = "The name of the job.")),
    request_body(content = JobTransitionBody),
    responses(
        (status = 200, description = "The job.", body = JobView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown`."),
        (
            status = 409,
            description = "`job.bad-transition`, `job.no-schedule`, `job.not-ready`, or `job.changed`: it was changed after `expected_updated_at`."
        ),
    )
)]
pub async fn transition(
    State(rest): State<RestState>,
    ItemRequest { caller, id: name, body }: ItemRequest,
) -> Result<Json<JobView>, ProblemDocument> {
    let JobTransitionBody { target_status, expected_updated_at } = extract::object(&body, TRANSITION)?;
    let words = JobState::ALL.map(JobState::as_str).join(", ");
    let target: JobState = target_status
        .parse()
        .map_err(|_| extract::bad_body(format!("`target_status` must be one of {words}"), TRANSITION))?;
    let (jobs, by) = (rest.engine().jobs().clone(), caller.clone());
    let work = async move { jobs.transition(&by, &name, target, expected_updated_at).await };
    let job = run_to_completion(work).await?;
    Ok(Json(job_view::view(&rest, &caller, &job).await?))
}

async fn switch(
    rest: RestState,
    caller: Arc<Caller>,
    name: String,
    switch: ScheduleSwitch,
) -> Result<Json<JobView>, ProblemDocument> {
    let (jobs, by) = (rest.engine().jobs().clone(), caller.clone());
    let job = run_to_completion(async move { jobs.switch(&by, &name, switch).await }).await?;
    Ok(Json(job_view::view(&rest, &caller, &job).await?))
}

/// Pauses the schedule of a job. A run that has started continues.
#[utoipa::path(
    post,
    path = "/jobs/{name}/schedule/pause",
    params(("name" = String, Path, description = "The name of the job.")),
    responses(
        (status = 200, description = "The job.", body = JobView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown`."),
        (status = 409, description = "`job.no-schedule`."),
    )
)]
pub async fn pause(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<JobView>, ProblemDocument> {
    switch(rest, caller, name, ScheduleSwitch::Pause).await
}

/// Resumes the schedule of a job. Times that passed while it was paused are skipped.
#[utoipa::path(
    post,
    path = "/jobs/{name}/schedule/resume",
    params(("name" = String, Path, description = "The name of the job.")),
    responses(
        (status = 200, description = "The job.", body = JobView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown`."),
        (status = 409, description = "`job.no-schedule`."),
    )
)]
pub async fn resume(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<JobView>, ProblemDocument> {
    switch(rest, caller, name, ScheduleSwitch::Resume).await
}

/// The body of a run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRunBody {
    /// The values of `${arguments.NAME}` in the steps.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) arguments: Option<Map<String, Value>>,
}

async fn start(
    rest: &RestState,
    request: ItemRequest,
    trigger: RunTrigger,
) -> Result<(StatusCode, Json<RunView>), ProblemDocument> {
    let ItemRequest { caller, id: name, body } = request;
    let JobRunBody { arguments } = extract::body(&body, RUN)?;
    let jobs = rest.engine().jobs().clone();
    let work = async move { jobs.run(&caller, &name, arguments.unwrap_or_default(), trigger).await };
    Ok((StatusCode::ACCEPTED, Json(job_runs::view(run_to_completion(work).await?))))
}

/// Starts a run of a job now, as the job's owner.
#[utoipa::path(
    post,
    path = "/jobs/{name}/run",
    params(("name" = String, Path, description = "The name of the job.")),
    request_body(content = JobRunBody, description = "Optional."),
    responses(
        (status = 202, description = "The run, which has started.", body = RunView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown`."),
        (status = 409, description = "`job.running`, `job.bad-transition` or `job.not-ready`."),
    )
)]
pub async fn run(
    State(rest): State<RestState>,
    request: ItemRequest,
) -> Result<(StatusCode, Json<RunView>), ProblemDocument> {
    start(&rest, request, RunTrigger::Manual).await
}

/// Runs a job again, also one that has ended. Without arguments, those of the last run are used.
#[utoipa::path(
    post,
    path = "/jobs/{name}/rerun",
    params(("name" = String, Path, description = "The name of the job.")),
    request_body(content = JobRunBody, description = "Optional."),
    responses(
        (status = 202, description = "The run, which has started.", body = RunView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`job.unknown`."),
        (status = 409, description = "`job.running` or `job.not-ready`."),
    )
)]
pub async fn rerun(
    State(rest): State<RestState>,
    request: ItemRequest,
) -> Result<(StatusCode, Json<RunView>), ProblemDocument> {
    start(&rest, request, RunTrigger::Rerun).await
}

/// Streams the events of a job as they happen.
///
/// A stream of server-sent events that stays open.
#[utoipa::path(
    get,
    path = "/jobs/{name}/events",
    params(
        ("name" = String, Path, description = "The name of the job."),
        ("last_event_id" = Option<String>, Query, description = "Resume after this event."),
        ("last-event-id" = Option<String>, Header, description = "The same; sent by clients that reconnect."),
    ),
    responses(
        (status = 200, description = "The stream.", content_type = "text/event-stream", body = StreamedEvent),
        (status = 404, description = "`job.unknown`."),
        (status = 429, description = "`events.too-many-streams`."),
    )
)]
pub async fn follow(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    RawQuery(query): RawQuery,
    RequestIngress(via): RequestIngress,
    headers: HeaderMap,
) -> Result<Response, ProblemDocument> {
    for (key, _) in url::form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes()) {
        if key != "last_event_id" {
            return Err(extract::unknown_parameter(&key, "`last_event_id`").into());
        }
    }
    rest.engine().jobs().get(&caller, &name).await?;
    events::follow_job(&rest, JobEvents { caller, via, name }, query.as_deref(), headers)
}
