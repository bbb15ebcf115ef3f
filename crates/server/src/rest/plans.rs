//! Plans over REST: plan mode on and off, and what becomes of the steps.

use super::Rest;
use super::approvals::{self, ApprovalView};
use super::asked::{self, Asked, At, Nothing, Sent, to_the_end};
use super::problem::ProblemDocument;
use super::who::{Who, through};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::plan::Plan;
use toolbooth_engine::{Scope, StepReport, Steps};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

const SCOPE: &str = "send {\"persona\": \"…\", \"session\": \"…\"}; both may be left out";
const STEPS: &str = "send {\"steps\": \"2-4\"}, one number, or \"all\"";

/// A plan as REST shows it.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<ApprovalView>>,
}

fn view(plan: Plan) -> PlanView {
    let Plan { id, user, persona, session, state, created_ms, closed_ms } = plan;
    let (id, state) = (id.to_string(), state.as_str());
    PlanView { id, user, persona, session, state, created_ms, closed_ms, steps: None }
}

/// Several plans.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlanList {
    plans: Vec<PlanView>,
}

/// What became of steps.
#[derive(Debug, Serialize, ToSchema)]
pub struct StepsView {
    plan: String,
    #[schema(inline)]
    steps: Vec<StepView>,
}

/// What became of one step.
#[derive(Debug, Serialize, ToSchema)]
pub struct StepView {
    step: u32,
    tool: String,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

fn steps_view(plan: Uuid, reports: Vec<StepReport>) -> StepsView {
    let view = |StepReport { step, tool, state, problem }| StepView { step, tool, state, problem };
    StepsView { plan: plan.to_string(), steps: reports.into_iter().map(view).collect() }
}

/// Whose calls a plan takes.
#[derive(Debug, Default, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ScopeBody {
    /// Only calls through this persona.
    #[serde(default)]
    persona: Option<String>,
    /// Only calls of this conversation.
    #[serde(default)]
    session: Option<String>,
}

/// A scope that can be met: a plan for a persona that is not the caller's would take nothing.
fn scope(rest: &Rest, caller: &Arc<Caller>, body: ScopeBody) -> Result<Scope, ProblemDocument> {
    let ScopeBody { persona, session } = body;
    through(rest, caller.clone(), persona.as_deref())?;
    if let Some(session) = &session {
        asked::check_session(session)?;
    }
    Ok(Scope { persona, session })
}

fn plan_id(text: &str) -> Result<Uuid, Problem> {
    asked::id(text, "plan.unknown", "plan")
}

/// Lists the caller's plans, newest first, without their steps.
#[utoipa::path(get, path = "/plans", responses((status = 200, description = "The plans.", body = PlanList)))]
pub async fn list(
    State(rest): State<Rest>,
    Who(caller): Who,
    _: Nothing,
) -> Result<Json<PlanList>, ProblemDocument> {
    let plans = rest.door.engine.plans_of(&caller).await?;
    Ok(Json(PlanList { plans: plans.into_iter().map(view).collect() }))
}

/// Shows a plan with its steps, in order.
#[utoipa::path(
    get,
    path = "/plans/{id}",
    params(("id" = String, Path, description = "The plan's id.")),
    responses(
        (status = 200, description = "The plan.", body = PlanView),
        (status = 404, description = "`plan.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
) -> Result<Json<PlanView>, ProblemDocument> {
    let engine = &rest.door.engine;
    let (plan, steps) = engine.plan(&caller, plan_id(&id)?).await?;
    let steps = steps.into_iter().map(|held| approvals::view(engine, &caller, held)).collect();
    Ok(Json(PlanView { steps: Some(steps), ..view(plan) }))
}

/// Turns plan mode on: calls that change something become steps of a plan.
#[utoipa::path(
    post,
    path = "/plans",
    request_body(content = ScopeBody, description = "Whose calls; may be left out."),
    responses((status = 200, description = "The plan that takes the calls.", body = PlanView))
)]
pub async fn on(
    State(rest): State<Rest>,
    Who(caller): Who,
    _: Nothing,
    Sent(body): Sent,
) -> Result<Json<PlanView>, ProblemDocument> {
    let scope = scope(&rest, &caller, asked::body(&body, SCOPE)?)?;
    Ok(Json(view(rest.door.engine.plan_on(&caller, scope).await?)))
}

/// Turns plan mode off.
#[utoipa::path(
    delete,
    path = "/plans",
    params(ScopeBody),
    responses((status = 200, description = "The plans that take no more steps.", body = PlanList))
)]
pub async fn off(
    State(rest): State<Rest>,
    Who(caller): Who,
    Asked(query): Asked<ScopeBody>,
    Sent(body): Sent,
) -> Result<Json<PlanList>, ProblemDocument> {
    let wanted = if body.is_empty() { query } else { asked::body(&body, SCOPE)? };
    let scope = scope(&rest, &caller, wanted)?;
    let closed = rest.door.engine.plan_off(&caller, scope).await?;
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

/// The body of a decision about steps.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StepsBody {
    /// Which steps.
    #[serde(default)]
    steps: Option<StepsWord>,
    /// Why not; for rejections.
    #[serde(default)]
    reason: Option<String>,
}

/// Runs steps of a plan in order, up to the first that fails.
#[utoipa::path(
    post,
    path = "/plans/{id}/approve",
    params(("id" = String, Path, description = "The plan's id.")),
    request_body(content = StepsBody, description = "`steps` has to be there.", example = json!({ "steps": "all" })),
    responses(
        (status = 200, description = "What became of them.", body = StepsView),
        (status = 400, description = "No steps are named."),
        (status = 404, description = "`plan.unknown` or `plan.no-such-step`."),
        (status = 409, description = "`call.already-decided`."),
    )
)]
pub async fn approve(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
    Sent(body): Sent,
) -> Result<Json<StepsView>, ProblemDocument> {
    let id = plan_id(&id)?;
    let body: StepsBody = asked::body(&body, STEPS)?;
    // Which steps run is said, not guessed.
    let Some(steps) = body.steps else {
        return Err(asked::bad_body("`steps` is missing".into(), STEPS).into());
    };
    if body.reason.is_some() {
        return Err(asked::bad_body("a `reason` is for rejections".into(), STEPS).into());
    }
    let steps = steps.read()?;
    let engine = rest.door.engine.clone();
    let reports = to_the_end(async move { engine.approve_steps(&caller, id, steps).await }).await?;
    Ok(Json(steps_view(id, reports)))
}

/// Drops steps of a plan: all that wait, unless the body names some.
#[utoipa::path(
    post,
    path = "/plans/{id}/reject",
    params(("id" = String, Path, description = "The plan's id.")),
    request_body(content = StepsBody, description = "May be left out."),
    responses(
        (status = 200, description = "What became of them.", body = StepsView),
        (status = 404, description = "`plan.unknown` or `plan.no-such-step`."),
        (status = 409, description = "`call.already-decided`."),
    )
)]
pub async fn reject(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
    Sent(body): Sent,
) -> Result<Json<StepsView>, ProblemDocument> {
    let id = plan_id(&id)?;
    let StepsBody { steps, reason } = asked::body(&body, STEPS)?;
    let steps = steps.map_or(Ok(Steps::All), |steps| steps.read())?;
    let engine = rest.door.engine.clone();
    let reports = to_the_end(async move { engine.reject_steps(&caller, id, steps, reason).await }).await?;
    Ok(Json(steps_view(id, reports)))
}
