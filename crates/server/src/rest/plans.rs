//! Plans over REST: turning plan mode on and off, and deciding on steps.

use super::RestState;
use super::approvals::{self, ApprovalView};
use super::auth::{RestCaller, with_persona};
use super::extract::{self, JsonBody, NoQuery, PathParam, QueryParams, run_to_completion};
use super::item_request::ItemRequest;
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::plan::Plan;
use toolbooth_engine::{PlanScope, Plans, StepReport, Steps};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

const SCOPE: &str = "send {\"persona\": \"…\", \"session\": \"…\"}; both are optional";
const STEPS: &str = "send {\"steps\": \"2-4\"}, a single number, or \"all\"";

/// A plan.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlanView {
    id: String,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    state: &'static str,
    created_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_ms: Option<i64>,
    /// The steps in order; absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<ApprovalView>>,
}

fn view(plan: Plan) -> PlanView {
    let Plan { id, user, persona, session, state, created_ms, closed_ms } = plan;
    let (id, state) = (id.to_string(), state.as_str());
    PlanView { id, user, persona, session, state, created_ms, closed_ms, steps: None }
}

/// A list of plans.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlanList {
    plans: Vec<PlanView>,
}

/// The states of some steps after a decision.
#[derive(Debug, Serialize, ToSchema)]
pub struct StepsView {
    plan: String,
    #[schema(inline)]
    steps: Vec<StepView>,
}

/// The state of one step.
#[derive(Debug, Serialize, ToSchema)]
pub struct StepView {
    step: u32,
    tool: String,
    state: String,
    /// Why the step failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

fn steps_view(plan: Uuid, reports: Vec<StepReport>) -> StepsView {
    let view = |StepReport { step, tool, state, problem }| StepView { step, tool, state, problem };
    StepsView { plan: plan.to_string(), steps: reports.into_iter().map(view).collect() }
}

/// Which calls a plan collects.
#[derive(Debug, Default, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ScopeBody {
    /// Only calls with this persona.
    #[serde(default)]
    persona: Option<String>,
    /// Only calls of this session.
    #[serde(default)]
    session: Option<String>,
}

/// Checks a scope: a plan for a persona that the caller may not use would collect nothing.
fn scope(rest: &RestState, caller: &Arc<Caller>, body: ScopeBody) -> Result<PlanScope, ProblemDocument> {
    let ScopeBody { persona, session } = body;
    with_persona(rest, caller.clone(), persona.as_deref())?;
    if let Some(session) = &session {
        extract::check_session(session)?;
    }
    Ok(PlanScope { persona, session })
}

fn plan_id(text: &str) -> Result<Uuid, Problem> {
    extract::id(text, "plan.unknown", "plan")
}

/// Lists the caller's plans, newest first, without steps.
#[utoipa::path(get, path = "/plans", responses((status = 200, description = "The plans.", body = PlanList)))]
pub async fn list(
    State(plans): State<Arc<Plans>>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
) -> Result<Json<PlanList>, ProblemDocument> {
    let plans = plans.list(&caller).await?;
    Ok(Json(PlanList { plans: plans.into_iter().map(view).collect() }))
}

/// Shows a plan with its steps, in order.
#[utoipa::path(
    get,
    path = "/plans/{id}",
    params(("id" = String, Path, description = "The id of the plan.")),
    responses(
        (status = 200, description = "The plan.", body = PlanView),
        (status = 404, description = "`plan.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<PlanView>, ProblemDocument> {
    let engine = rest.engine();
    let (plan, steps) = engine.plans().get(&caller, plan_id(&id)?).await?;
    let steps = steps.into_iter().map(|held| approvals::view(engine.approvals(), &caller, held)).collect();
    Ok(Json(PlanView { steps: Some(steps), ..view(plan) }))
}

/// Turns plan mode on: calls that change something become steps of a plan instead of running.
#[utoipa::path(
    post,
    path = "/plans",
    request_body(content = ScopeBody, description = "Which calls to collect. Optional."),
    responses((status = 200, description = "The plan that collects the calls.", body = PlanView))
)]
pub async fn on(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<PlanView>, ProblemDocument> {
    let scope = scope(&rest, &caller, extract::body(&body, SCOPE)?)?;
    Ok(Json(view(rest.engine().plans().open(&caller, scope).await?)))
}

/// Turns plan mode off.
#[utoipa::path(
    delete,
    path = "/plans",
    params(ScopeBody),
    responses((status = 200, description = "The plans that were closed.", body = PlanList))
)]
pub async fn off(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    QueryParams(query): QueryParams<ScopeBody>,
    JsonBody(body): JsonBody,
) -> Result<Json<PlanList>, ProblemDocument> {
    let wanted = if body.is_empty() { query } else { extract::body(&body, SCOPE)? };
    let scope = scope(&rest, &caller, wanted)?;
    let closed = rest.engine().plans().close(&caller, scope).await?;
    Ok(Json(PlanList { plans: closed.into_iter().map(view).collect() }))
}

/// Steps: a number, a range such as `2-4`, or `all`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum StepsWord {
    Number(u32),
    Text(String),
}

impl StepsWord {
    fn read(&self) -> Result<Steps, Problem> {
        match self {
            Self::Number(number) => number.to_string().parse(),
            Self::Text(text) => text.parse(),
        }
    }
}

/// The body of a decision on steps.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StepsBody {
    /// The steps: a number, a range such as `2-4`, or `all`.
    #[serde(default)]
    steps: Option<StepsWord>,
    /// The reason of a rejection.
    #[serde(default)]
    reason: Option<String>,
}

/// Runs steps of a plan in order and stops at the first that fails.
#[utoipa::path(
    post,
    path = "/plans/{id}/approve",
    params(("id" = String, Path, description = "The id of the plan.")),
    request_body(content = StepsBody, description = "`steps` is required.", example = json!({ "steps": "all" })),
    responses(
        (status = 200, description = "The steps after the run.", body = StepsView),
        (status = 400, description = "`steps` is missing."),
        (status = 404, description = "`plan.unknown` or `plan.no-such-step`."),
        (status = 409, description = "`call.already-decided`."),
    )
)]
pub async fn approve(
    State(plans): State<Arc<Plans>>,
    ItemRequest { caller, id, body }: ItemRequest,
) -> Result<Json<StepsView>, ProblemDocument> {
    let id = plan_id(&id)?;
    let body: StepsBody = extract::body(&body, STEPS)?;
    // The steps to run are never guessed.
    let Some(steps) = body.steps else {
        return Err(extract::bad_body("`steps` is missing".into(), STEPS).into());
    };
    if body.reason.is_some() {
        return Err(extract::bad_body("`reason` is only for rejections".into(), STEPS).into());
    }
    let steps = steps.read()?;
    let reports = run_to_completion(async move { plans.approve_steps(&caller, id, steps).await }).await?;
    Ok(Json(steps_view(id, reports)))
}

/// Rejects steps of a plan: those in the body, or all pending steps.
#[utoipa::path(
    post,
    path = "/plans/{id}/reject",
    params(("id" = String, Path, description = "The id of the plan.")),
    request_body(content = StepsBody, description = "Optional."),
    responses(
        (status = 200, description = "The rejected steps.", body = StepsView),
        (status = 404, description = "`plan.unknown` or `plan.no-such-step`."),
        (status = 409, description = "`call.already-decided`."),
    )
)]
pub async fn reject(
    State(plans): State<Arc<Plans>>,
    ItemRequest { caller, id, body }: ItemRequest,
) -> Result<Json<StepsView>, ProblemDocument> {
    let id = plan_id(&id)?;
    let StepsBody { steps, reason } = extract::body(&body, STEPS)?;
    let steps = steps.map_or(Ok(Steps::All), |steps| steps.read())?;
    let reports =
        run_to_completion(async move { plans.reject_steps(&caller, id, steps, reason).await }).await?;
    Ok(Json(steps_view(id, reports)))
}
