//! Plans over REST: plan mode on and off, and what becomes of the steps.

use super::Rest;
use super::approvals::{self, ApprovalView};
use super::asked::{self, Asked, to_the_end};
use super::problem::ProblemDocument;
use super::who::{Who, through};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::plan::Plan;
use toolbooth_engine::{Scope, StepReport, Steps};
use uuid::Uuid;

const SCOPE: &str = "send {\"persona\": \"…\", \"session\": \"…\"}; both may be left out";
const STEPS: &str = "send {\"steps\": \"2-4\"}, one number, or \"all\"";

/// A plan as REST shows it.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
pub struct PlanList {
    plans: Vec<PlanView>,
}

/// What became of steps.
#[derive(Debug, Serialize)]
pub struct StepsView {
    plan: String,
    steps: Vec<StepReport>,
}

/// Whose calls a plan takes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScopeBody {
    #[serde(default)]
    persona: Option<String>,
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

/// `GET /plans`: newest first.
pub async fn list(State(rest): State<Rest>, Who(caller): Who) -> Result<Json<PlanList>, ProblemDocument> {
    let plans = rest.door.engine.plans_of(&caller).await?;
    Ok(Json(PlanList { plans: plans.into_iter().map(view).collect() }))
}

/// `GET /plans/{id}`: with its steps, in order.
pub async fn show(
    State(rest): State<Rest>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Result<Json<PlanView>, ProblemDocument> {
    let engine = &rest.door.engine;
    let (plan, steps) = engine.plan(&caller, plan_id(&id)?).await?;
    let steps = steps.into_iter().map(|held| approvals::view(engine, &caller, held)).collect();
    Ok(Json(PlanView { steps: Some(steps), ..view(plan) }))
}

/// `POST /plans`: plan mode on; the plan that takes the calls.
pub async fn on(
    State(rest): State<Rest>,
    Who(caller): Who,
    body: Bytes,
) -> Result<Json<PlanView>, ProblemDocument> {
    let scope = scope(&rest, &caller, asked::body(&body, SCOPE)?)?;
    Ok(Json(view(rest.door.engine.plan_on(&caller, scope).await?)))
}

/// `DELETE /plans`: plan mode off; the plans that take no more steps.
pub async fn off(
    State(rest): State<Rest>,
    Who(caller): Who,
    Asked(query): Asked<ScopeBody>,
    body: Bytes,
) -> Result<Json<PlanList>, ProblemDocument> {
    let wanted = if body.is_empty() { query } else { asked::body(&body, SCOPE)? };
    let scope = scope(&rest, &caller, wanted)?;
    let closed = rest.door.engine.plan_off(&caller, scope).await?;
    Ok(Json(PlanList { plans: closed.into_iter().map(view).collect() }))
}

/// Steps, as a number or as text.
#[derive(Debug, Deserialize)]
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
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepsBody {
    #[serde(default)]
    steps: Option<StepsWord>,
    #[serde(default)]
    reason: Option<String>,
}

/// `POST /plans/{id}/approve`: runs steps in order, up to the first that fails.
pub async fn approve(
    State(rest): State<Rest>,
    Who(caller): Who,
    Path(id): Path<String>,
    body: Bytes,
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
    Ok(Json(StepsView { plan: id.to_string(), steps: reports }))
}

/// `POST /plans/{id}/reject`: all steps that wait, unless the body names some.
pub async fn reject(
    State(rest): State<Rest>,
    Who(caller): Who,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<StepsView>, ProblemDocument> {
    let id = plan_id(&id)?;
    let StepsBody { steps, reason } = asked::body(&body, STEPS)?;
    let steps = steps.map_or(Ok(Steps::All), |steps| steps.read())?;
    let engine = rest.door.engine.clone();
    let reports = to_the_end(async move { engine.reject_steps(&caller, id, steps, reason).await }).await?;
    Ok(Json(StepsView { plan: id.to_string(), steps: reports }))
}
