//! Tasks over REST.

use super::RestState;
use super::auth::RestCaller;
use super::extract::{self, JsonBody, NoQuery, PathParam, bad_query, run_to_completion};
use super::item_request::ItemRequest;
use super::job_view::plan_in_order;
use super::problem::ProblemDocument;
use super::tools::{self, ToolListQuery};
use super::work_items::{self, DEFAULT_LIMIT, MAX_LIMIT, WorkFilters};
use axum::Json;
use axum::extract::State;
use http::{StatusCode, Uri};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::fault::Problem;
use toolbooth_core::job::TaskStatus;
use toolbooth_core::registry::SharedTools;
use toolbooth_engine::{Jobs, KnownTask, TaskQuery, WorkList};
use utoipa::{IntoParams, ToSchema};

const CREATE: &str = "send {\"name\": \"collect\", \"summary\": \"Collect the sources\"}";
const TRANSITION: &str = "send {\"target_status\": \"ready\"}";
const SEARCH: &str = "send {\"text\": \"words\", \"status\": [\"ready\"]}";

/// A task. Times are in milliseconds since 1970.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskView {
    /// Its id; the name of a manifest task.
    id: String,
    name: String,
    summary: String,
    description: Option<String>,
    /// The persona it belongs to; null for a shared task.
    persona: Option<String>,
    required_skills: Vec<String>,
    required_tools: Vec<String>,
    /// Its steps, which a job runs, in their order. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Value>,
    /// Tasks that must be done or cancelled before it advances.
    depends_on: Vec<String>,
    /// Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    acceptance_criteria: Option<Vec<Value>>,
    /// Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    escalation_policy: Option<Value>,
    extends: Option<String>,
    tags: Vec<String>,
    priority: Option<String>,
    /// `draft`, `ready`, `in_progress`, `review`, `done` or `cancelled`.
    status: &'static str,
    /// The user it belongs to; null for a manifest task in its first state, and for other users.
    owner: Option<String>,
    /// The run of a job that waits for it.
    run: Option<String>,
    /// Why it was escalated: `overdue`.
    escalations: Vec<String>,
    /// `manifest` or `request`.
    source: &'static str,
    /// The file of a manifest task; for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    created_at: Option<i64>,
    /// When it was changed; for `expected_updated_at`.
    updated_at: Option<i64>,
}

fn view(caller: &Caller, task: KnownTask) -> TaskView {
    let status = task.state().as_str();
    let is_admin = caller.admin == Admin::Yes;
    let KnownTask { id, persona, origin, manifest, definition, record } = task;
    let record = record.as_ref();
    let owner = record.map(|record| record.owner.user.clone());
    TaskView {
        id,
        name: definition.name,
        summary: definition.summary,
        description: definition.description,
        persona: persona.or(definition.persona),
        required_skills: definition.required_skills,
        required_tools: definition.required_tools,
        plan: definition.plan.as_ref().map(plan_in_order),
        depends_on: definition.depends_on,
        acceptance_criteria: Some(definition.acceptance_criteria.iter().map(json).collect()),
        escalation_policy: Some(json(&definition.escalation_policy)),
        extends: definition.extends,
        tags: definition.tags,
        priority: definition.priority,
        status,
        owner: owner.filter(|owner| is_admin || **owner == *caller.user),
        run: record.and_then(|record| record.run).map(|run| run.to_string()),
        escalations: record.map(|record| record.escalations.clone()).unwrap_or_default(),
        source: if manifest.is_some() { "manifest" } else { "request" },
        origin: origin.filter(|_| is_admin),
        created_at: record.map(|record| record.created_ms),
        updated_at: record.map(|record| record.updated_ms),
    }
}

/// The entry of a list.
fn entry(caller: &Caller, task: KnownTask) -> TaskView {
    let whole = view(caller, task);
    TaskView { plan: None, acceptance_criteria: None, escalation_policy: None, ..whole }
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// A page of tasks, without their plans, criteria and policies.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskPage {
    /// Number of tasks on this page.
    count: usize,
    /// The tasks, by name.
    tasks: Vec<TaskView>,
    /// The value of `cursor` for the next page, if there is one.
    next_cursor: Option<String>,
}

/// The filters of a list of tasks.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the parameters for the OpenAPI document; `TaskListQuery::read` parses them")]
pub struct TaskParameters {
    /// States, separated by commas: `draft`, `ready`, `in_progress`, `review`, `done`, `cancelled`.
    #[param(value_type = Option<String>)]
    status: Option<String>,
    /// Only tasks of this user.
    #[param(value_type = Option<String>)]
    owner: Option<String>,
    /// Only tasks with this tag.
    #[param(value_type = Option<String>)]
    tag: Option<String>,
    /// Only tasks with this priority.
    #[param(value_type = Option<String>)]
    priority: Option<String>,
    /// Tasks for any of these personas, and shared tasks. `-shared` excludes shared tasks.
    #[param(value_type = Option<Vec<String>>)]
    persona: Vec<String>,
    /// The `next_cursor` of the previous page.
    #[param(value_type = Option<String>)]
    cursor: Option<String>,
    /// Maximum number of tasks.
    #[param(value_type = Option<u32>)]
    limit: Option<u32>,
}

struct TaskListQuery {
    personas: ToolListQuery,
    query: TaskQuery,
}

impl TaskListQuery {
    fn read(query: &str) -> Result<Self, Problem> {
        let WorkFilters { personas, owner, after, limit, others } = WorkFilters::read(query)?;
        let shared = personas.query.shared;
        let mut query = TaskQuery { owner, after, limit, shared, ..TaskQuery::default() };
        for (key, value) in others {
            match &*key {
                "status" => {
                    for word in value.split(',') {
                        query.states.push(read_state(word).map_err(bad_query)?);
                    }
                }
                "tag" => query.tag = Some(value),
                "priority" => query.priority = Some(value),
                other => {
                    let known = "`status`, `owner`, `tag`, `priority`, `persona`, `cursor` or `limit`";
                    return Err(extract::unknown_parameter(other, known));
                }
            }
        }
        Ok(Self { personas, query })
    }
}

fn read_state(word: &str) -> Result<TaskStatus, String> {
    let words = TaskStatus::ALL.map(TaskStatus::as_str).join(", ");
    word.parse().map_err(|_| format!("a status must be one of {words}"))
}

async fn page(
    rest: &RestState,
    callers: &[Arc<Caller>],
    query: &TaskQuery,
) -> Result<TaskPage, ProblemDocument> {
    let WorkList { entries, next, .. } = rest.engine().jobs().list_tasks(callers, query).await?;
    let Some(caller) = callers.first() else {
        return Ok(TaskPage { count: 0, tasks: Vec::new(), next_cursor: None });
    };
    let tasks: Vec<TaskView> = entries.into_iter().map(|task| entry(caller, task)).collect();
    Ok(TaskPage { count: tasks.len(), tasks, next_cursor: next.as_deref().map(work_items::cursor) })
}

/// The first page of tasks, for the registry, and the cursor of the next one.
pub(super) async fn first_page(
    rest: &RestState,
    callers: &[Arc<Caller>],
    personas: &ToolListQuery,
) -> Result<(Vec<TaskView>, Option<String>), ProblemDocument> {
    let query = TaskQuery { limit: MAX_LIMIT, shared: personas.query.shared, ..TaskQuery::default() };
    let TaskPage { tasks, next_cursor, .. } = page(rest, callers, &query).await?;
    Ok((tasks, next_cursor))
}

/// Lists the tasks that the caller may see.
#[utoipa::path(
    get,
    path = "/tasks",
    params(TaskParameters),
    responses(
        (status = 200, description = "A page of tasks.", body = TaskPage),
        (status = 403, description = "`persona.unknown`."),
    )
)]
pub async fn list(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    uri: Uri,
) -> Result<Json<TaskPage>, ProblemDocument> {
    let TaskListQuery { personas, query } = TaskListQuery::read(uri.query().unwrap_or_default())?;
    let callers = tools::views(&rest, &caller, &personas.personas)?;
    Ok(Json(page(&rest, &callers, &query).await?))
}

/// A search for tasks; all given fields must match.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskSearchBody {
    /// Words of the name, summary or description.
    text: Option<String>,
    /// States.
    status: Option<Vec<String>>,
    owner: Option<String>,
    tag: Option<String>,
    priority: Option<String>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum number of tasks.
    limit: Option<u32>,
}

/// Searches the tasks that the caller may see.
#[utoipa::path(
    post,
    path = "/tasks/search",
    request_body(content = TaskSearchBody, description = "Optional."),
    responses((status = 200, description = "A page of tasks.", body = TaskPage))
)]
pub async fn search(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<TaskPage>, ProblemDocument> {
    let body: TaskSearchBody = extract::body(&body, SEARCH)?;
    let states = body.status.unwrap_or_default();
    let states: Result<Vec<TaskStatus>, String> = states.iter().map(|word| read_state(word)).collect();
    let query = TaskQuery {
        states: states.map_err(|message| extract::bad_body(message, SEARCH))?,
        owner: body.owner,
        tag: body.tag,
        priority: body.priority,
        text: body.text,
        shared: SharedTools::Included,
        after: work_items::cursor_of_body(body.cursor.as_deref(), SEARCH)?,
        limit: body.limit.map_or(DEFAULT_LIMIT, |limit| limit as usize).clamp(1, MAX_LIMIT),
    };
    Ok(Json(page(&rest, &[caller], &query).await?))
}

/// The definition of a task.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the body for the OpenAPI document; the engine reads and checks it")]
pub struct TaskBody {
    /// The name: up to 128 bytes, without slashes.
    name: String,
    summary: Option<String>,
    description: Option<String>,
    persona: Option<String>,
    required_skills: Option<Vec<String>>,
    required_tools: Option<Vec<String>>,
    /// Its steps, which a job runs: `{id, tool, arguments, after, when}`.
    #[schema(value_type = Option<Vec<Object>>)]
    plan: Option<Value>,
    /// Tasks that must be done or cancelled before it advances.
    depends_on: Option<Vec<String>>,
    /// Sentences, or checks.
    acceptance_criteria: Option<Vec<Value>>,
    /// `{level, contact, timeframe, triggers, actions, notes, auto_escalate}`.
    #[schema(value_type = Option<Object>)]
    escalation_policy: Option<Value>,
    tags: Option<Vec<String>>,
    priority: Option<String>,
}

/// Creates a task that belongs to the caller, as a draft.
#[utoipa::path(
    post,
    path = "/tasks",
    request_body(content = TaskBody),
    responses((status = 201, description = "The task.", body = TaskView))
)]
pub async fn create(
    State(jobs): State<Arc<Jobs>>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<TaskView>), ProblemDocument> {
    let definition = work_items::read_definition(&body, CREATE)?;
    let by = caller.clone();
    let created = run_to_completion(async move { jobs.create_task(&by, &definition).await }).await?;
    Ok((StatusCode::CREATED, Json(view(&caller, created))))
}

/// Shows a task.
#[utoipa::path(
    get,
    path = "/tasks/{id}",
    params(("id" = String, Path, description = "The id of the task, or its name.")),
    responses(
        (status = 200, description = "The task.", body = TaskView),
        (status = 404, description = "`task.unknown`."),
    )
)]
pub async fn show(
    State(jobs): State<Arc<Jobs>>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<TaskView>, ProblemDocument> {
    let task = jobs.get_task(&caller, &id).await?;
    Ok(Json(view(&caller, task)))
}

/// A change of a task's definition. A null removes an optional field.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the body for the OpenAPI document; the engine reads and checks it")]
pub struct TaskPatchBody {
    /// The `updated_at` of the version that the change is based on; without it, the change is always made.
    expected_updated_at: Option<i64>,
    summary: Option<String>,
    description: Option<String>,
    persona: Option<String>,
    required_skills: Option<Vec<String>>,
    required_tools: Option<Vec<String>>,
    #[schema(value_type = Option<Vec<Object>>)]
    plan: Option<Value>,
    depends_on: Option<Vec<String>>,
    acceptance_criteria: Option<Vec<Value>>,
    #[schema(value_type = Option<Object>)]
    escalation_policy: Option<Value>,
    tags: Option<Vec<String>>,
    priority: Option<String>,
}

/// Changes the definition of a task that a request created.
#[utoipa::path(
    patch,
    path = "/tasks/{id}",
    params(("id" = String, Path, description = "The id of the task, or its name.")),
    request_body(content = TaskPatchBody),
    responses(
        (status = 200, description = "The task.", body = TaskView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`task.unknown`."),
        (status = 409, description = "`job.changed`: it was changed after `expected_updated_at`; `job.in-manifest`."),
    )
)]
pub async fn patch(
    State(jobs): State<Arc<Jobs>>,
    ItemRequest { caller, id, body }: ItemRequest,
) -> Result<Json<TaskView>, ProblemDocument> {
    let (expected, patch) = work_items::read_patch(&body)?;
    let by = caller.clone();
    let work = async move { jobs.patch_task(&by, &id, &patch, expected).await };
    Ok(Json(view(&caller, run_to_completion(work).await?)))
}

/// Deletes a task that a request created.
#[utoipa::path(
    delete,
    path = "/tasks/{id}",
    params(("id" = String, Path, description = "The id of the task, or its name.")),
    responses(
        (status = 200, description = "The deleted task.", body = TaskView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`task.unknown`."),
        (status = 409, description = "`job.in-manifest`, or `task.of-run`: a run of a job waits for it."),
    )
)]
pub async fn delete(
    State(jobs): State<Arc<Jobs>>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<TaskView>, ProblemDocument> {
    let by = caller.clone();
    let deleted = run_to_completion(async move { jobs.delete_task(&by, &id).await }).await?;
    Ok(Json(view(&caller, deleted)))
}

/// The body of a task's transition.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskTransitionBody {
    /// `ready`, `in_progress`, `review`, `done` or `cancelled`.
    target_status: String,
    /// The `updated_at` of the version that the change is based on; without it, the change is always made.
    expected_updated_at: Option<i64>,
}

/// Changes the state of a task.
#[utoipa::path(
    post,
    path = "/tasks/{id}/transition",
    params(("id" = String, Path, description = "The id of the task, or its name.")),
    request_body(content = TaskTransitionBody),
    responses(
        (status = 200, description = "The task.", body = TaskView),
        (status = 403, description = "`job.not-owner`."),
        (status = 404, description = "`task.unknown`."),
        (
            status = 409,
            description = "`task.bad-transition`, `task.dependency-open`, or `job.changed`: it was changed after `expected_updated_at`."
        ),
    )
)]
pub async fn transition(
    State(jobs): State<Arc<Jobs>>,
    ItemRequest { caller, id, body }: ItemRequest,
) -> Result<Json<TaskView>, ProblemDocument> {
    let TaskTransitionBody { target_status, expected_updated_at } = extract::object(&body, TRANSITION)?;
    let target = read_state(&target_status).map_err(|message| extract::bad_body(message, TRANSITION))?;
    let by = caller.clone();
    let work = async move { jobs.transition_task(&by, &id, target, expected_updated_at).await };
    Ok(Json(view(&caller, run_to_completion(work).await?)))
}
