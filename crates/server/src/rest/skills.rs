//! Skills over REST: lists, checks and runs them.

use super::RestState;
use super::auth::RestCaller;
use super::calls::{self, CallAnswerView, CallBody, CallView, ServerQuestions};
use super::extract::{self, JsonBody, NoQuery, PathParam, bad_query};
use super::problem::ProblemDocument;
use super::tools::{self, ToolListQuery};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Uri};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::fault::Problem;
use toolbooth_core::manifest::skill_tool_name;
use toolbooth_core::registry::SharedTools;
use toolbooth_core::skill::{Skill, SkillFault, uri_of};
use toolbooth_engine::{SkillChange, SkillCheck};
use utoipa::{IntoParams, ToSchema};

/// A skill.
#[derive(Debug, Serialize, ToSchema)]
pub struct SkillView {
    name: String,
    /// The persona that it belongs to; null for a shared skill.
    persona: Option<String>,
    /// Its version.
    version: Option<String>,
    /// A line for lists.
    summary: Option<String>,
    /// What it does and when to use it.
    description: Option<String>,
    /// The instructions for models.
    instruction_prompt: String,
    /// The tools that it needs.
    required_tools: Vec<String>,
    /// Capabilities that some tool must have.
    required_capabilities: Vec<String>,
    /// What to be careful about.
    safety_notes: Option<String>,
    /// Its category.
    category: Option<String>,
    /// Tags of what it offers.
    capability_tags: Vec<String>,
    /// How several models work on it together, as its manifest says; for programs that do so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    collaboration: Option<Value>,
    /// The steps of its plan in the order in which they run; null if it has instructions only.
    #[schema(value_type = Option<Object>)]
    plan: Option<Value>,
    /// The tool that runs its plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The time for all steps, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<f64>,
    /// The URIs of its files, which MCP clients can read.
    files: Vec<String>,
    /// Whether the caller has everything that it needs.
    ready: bool,
    /// Tools that it needs and the caller does not have.
    missing_tools: Vec<String>,
    /// Capabilities that it needs and no tool of the caller has.
    missing_capabilities: Vec<String>,
    /// The file that defines it; for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

/// A list of skills.
#[derive(Debug, Serialize, ToSchema)]
pub struct SkillList {
    /// Number of skills.
    count: usize,
    /// The skills, by name.
    skills: Vec<SkillView>,
}

/// The result of a check.
#[derive(Debug, Serialize, ToSchema)]
pub struct SkillCheckView {
    /// The skill.
    skill: String,
    /// Whether it has no errors.
    valid: bool,
    /// The errors.
    problems: Vec<SkillProblemView>,
    /// Tools that it needs and the caller does not have.
    missing_tools: Vec<String>,
    /// Capabilities that it needs and no tool of the caller has.
    missing_capabilities: Vec<String>,
}

/// An error of a skill.
#[derive(Debug, Serialize, ToSchema)]
pub struct SkillProblemView {
    /// The fault code.
    code: &'static str,
    /// One sentence.
    message: String,
    /// What to try next.
    hint: Option<String>,
}

/// Changes of skills.
#[derive(Debug, Serialize, ToSchema)]
pub struct SkillChangeList {
    /// The revision of the catalog, for the next `since`.
    revision: u64,
    /// Number of changes.
    count: usize,
    /// The changes, oldest first.
    changes: Vec<SkillChangeView>,
}

/// A change of a skill.
#[derive(Debug, Serialize, ToSchema)]
pub struct SkillChangeView {
    /// The skill.
    skill: String,
    /// The persona that it belongs to; null for a shared skill.
    persona: Option<String>,
    /// `added`, `changed` or `removed`.
    change: &'static str,
    /// Its version after the change.
    version: Option<String>,
    /// The revision of the catalog that has the change.
    revision: u64,
    /// When it was loaded, in milliseconds since 1970.
    at_ms: i64,
}

/// The personas of a list of skills.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "the parameters for the OpenAPI document; `ToolListQuery::of_personas` parses them"
)]
pub struct SkillParameters {
    /// Skills of any of these personas, and shared skills. `-shared` (also `!shared`, `no-shared`) excludes shared
    /// skills. Only personas that the caller may select.
    #[param(value_type = Option<Vec<String>>)]
    persona: Vec<String>,
}

/// The start of a list of changes.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the parameters for the OpenAPI document; `since` parses them")]
pub struct ChangesParameters {
    /// Only changes after this revision of the catalog. The default is 0.
    #[param(minimum = 0)]
    since: Option<u64>,
}

fn view(rest: &RestState, skill: &Skill, caller: &Caller) -> SkillView {
    let SkillCheck { problems, missing_tools, missing_capabilities } =
        rest.engine().skills().check(skill, caller);
    SkillView {
        name: skill.name.clone(),
        persona: skill.persona.clone(),
        version: skill.version.clone(),
        summary: skill.summary.clone(),
        description: skill.description.clone(),
        instruction_prompt: skill.instructions.clone(),
        required_tools: skill.required_tools.clone(),
        required_capabilities: skill.required_capabilities.clone(),
        safety_notes: skill.safety_notes.clone(),
        category: skill.category.clone(),
        capability_tags: skill.capability_tags.clone(),
        collaboration: skill.collaboration.clone(),
        plan: skill.plan.as_ref().map(|plan| plan.in_order()),
        tool: skill.plan.as_ref().map(|_| skill_tool_name(&skill.name)),
        timeout: skill.timeout.map(|timeout| timeout.as_secs_f64()),
        files: skill.files.iter().map(|file| uri_of(&skill.name, &file.path)).collect(),
        ready: problems.is_empty(),
        missing_tools,
        missing_capabilities,
        source: (caller.admin == Admin::Yes).then(|| skill.origin.clone()),
    }
}

/// The skills that any of these callers may see, by name. They are one user with different personas.
pub fn views(rest: &RestState, callers: &[Arc<Caller>], query: &ToolListQuery) -> Vec<SkillView> {
    let mut found: Vec<(Arc<Skill>, &Arc<Caller>)> = Vec::new();
    for caller in callers {
        for skill in rest.engine().skills().visible(caller) {
            let is_wanted = query.query.shared == SharedTools::Included || skill.persona.is_some();
            if is_wanted && !found.iter().any(|(known, _)| Arc::ptr_eq(known, &skill)) {
                found.push((skill, caller));
            }
        }
    }
    found.sort_by(|(one, _), (other, _)| (&one.name, &one.persona).cmp(&(&other.name, &other.persona)));
    found.into_iter().map(|(skill, caller)| view(rest, &skill, caller)).collect()
}

/// Finds a skill that the caller may see.
pub(super) fn find(rest: &RestState, name: &str, caller: &Caller) -> Result<Arc<Skill>, ProblemDocument> {
    let unknown = || SkillFault::Unknown { name: name.chars().take(64).collect() };
    rest.engine().skills().find(name, caller).ok_or_else(|| Problem::of(&unknown()).into())
}

/// Lists the skills that the caller may see.
#[utoipa::path(
    get,
    path = "/skills",
    params(SkillParameters),
    responses(
        (status = 200, description = "The skills.", body = SkillList),
        (status = 400, description = "`request.bad-query`."),
        (status = 403, description = "`persona.unknown`."),
    )
)]
pub async fn list(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    uri: Uri,
) -> Result<Json<SkillList>, ProblemDocument> {
    let query = ToolListQuery::of_personas(uri.query().unwrap_or_default())?;
    let callers = tools::views(&rest, &caller, &query.personas)?;
    rest.engine().catalog().wait_for_servers(&caller).await;
    let skills = views(&rest, &callers, &query);
    Ok(Json(SkillList { count: skills.len(), skills }))
}

/// Shows a skill.
#[utoipa::path(
    get,
    path = "/skills/{name}",
    params(("name" = String, Path, description = "The name of the skill.", example = "brief")),
    responses(
        (status = 200, description = "The skill.", body = SkillView),
        (status = 404, description = "`skill.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<SkillView>, ProblemDocument> {
    rest.engine().catalog().wait_for_servers(&caller).await;
    let skill = find(&rest, &name, &caller)?;
    Ok(Json(view(&rest, &skill, &caller)))
}

/// Lists the latest changes of skills.
///
/// Without a query, it shows the skill called `changes`, if there is one.
#[utoipa::path(
    get,
    path = "/skills/changes",
    params(ChangesParameters),
    responses(
        (status = 200, description = "The changes since the gateway started, at most 200.", body = SkillChangeList),
        (status = 400, description = "`request.bad-query`."),
    )
)]
pub async fn changes(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    uri: Uri,
) -> Result<Response, ProblemDocument> {
    let query = uri.query().unwrap_or_default();
    if query.is_empty()
        && let Some(skill) = rest.engine().skills().find("changes", &caller)
    {
        return Ok(Json(view(&rest, &skill, &caller)).into_response());
    }
    let since = since(query)?;
    let changes = rest.engine().skills().changes_since(since, &caller).into_iter();
    let changes: Vec<SkillChangeView> = changes
        .map(|SkillChange { revision, at_ms, change, skill }| SkillChangeView {
            skill: skill.name.clone(),
            persona: skill.persona.clone(),
            change,
            version: skill.version.clone(),
            revision,
            at_ms,
        })
        .collect();
    let revision = rest.engine().catalog().load().revision;
    Ok(Json(SkillChangeList { revision, count: changes.len(), changes }).into_response())
}

fn since(query: &str) -> Result<u64, Problem> {
    let mut since = None;
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()).take(3) {
        if key != "since" || since.is_some() {
            let shown: String = key.chars().take(64).collect();
            return Err(bad_query(format!("unexpected query parameter `{shown}`; expected one `since`")));
        }
        let wrong = || bad_query("`since` must be a revision of the catalog".to_owned());
        since = Some(value.parse::<u64>().map_err(|_| wrong())?);
    }
    Ok(since.unwrap_or_default())
}

/// Checks whether the caller has the tools and capabilities that a skill needs. Nothing is run.
#[utoipa::path(
    post,
    path = "/skills/{name}/validate",
    params(("name" = String, Path, description = "The name of the skill.", example = "brief")),
    responses(
        (status = 200, description = "The result of the check.", body = SkillCheckView),
        (status = 404, description = "`skill.unknown`."),
    )
)]
pub async fn validate(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    _: NoQuery,
) -> Result<Json<SkillCheckView>, ProblemDocument> {
    rest.engine().catalog().wait_for_servers(&caller).await;
    let skill = find(&rest, &name, &caller)?;
    let SkillCheck { problems, missing_tools, missing_capabilities } =
        rest.engine().skills().check(&skill, &caller);
    let problems: Vec<SkillProblemView> = problems
        .into_iter()
        .map(|Problem { code, message, hint, .. }| SkillProblemView { code, message, hint })
        .collect();
    let valid = problems.is_empty();
    let skill = skill.name.clone();
    Ok(Json(SkillCheckView { skill, valid, problems, missing_tools, missing_capabilities }))
}

/// Runs the plan of a skill: the same as a call of its tool.
///
/// Each step is a call of its own, with the caller's rights. A run in which a step failed is a result with `isError`.
#[utoipa::path(
    post,
    path = "/skills/{name}/run",
    params(("name" = String, Path, description = "The name of the skill.", example = "brief")),
    request_body(content = CallBody, description = "The arguments. Optional.", example = json!({ "arguments": { "topic": "cats" } })),
    responses(
        (status = 200, description = "The state of the run and the outcome of each step.", body = CallView),
        (status = 202, description = "The run has not ended: it waits for approval, or a server asks a question.", body = CallAnswerView),
        (status = 400, description = "The arguments do not match the schema, or the skill has no plan: `skill.no-plan`."),
        (status = 403, description = "A policy or a person refused the call."),
        (status = 404, description = "`skill.unknown`."),
        (status = 409, description = "The run was cancelled: `call.cancelled`."),
        (status = 429, description = "`call.over-rate`."),
        (status = 502, description = "The run failed."),
        (status = 503, description = "Too many calls are waiting."),
        (status = 504, description = "`call.timeout`."),
    )
)]
pub async fn run(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(name): PathParam<String>,
    headers: HeaderMap,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Response, ProblemDocument> {
    let body: CallBody = extract::body(&body, calls::EXAMPLE)?;
    body.check()?;
    let seen_as = super::auth::with_persona(&rest, caller.clone(), body.persona())?;
    let skill = find(&rest, &name, &seen_as)?;
    if skill.plan.is_none() {
        return Err(Problem::of(&SkillFault::NoPlan { name: skill.name.clone() }).into());
    }
    let tool = format!("tool.{}", skill_tool_name(&skill.name));
    Ok(calls::run(&rest, caller, tool, body, &headers, ServerQuestions::Asked).await?.into_response())
}
