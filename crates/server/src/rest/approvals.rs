//! Held calls over REST: what waits for a person, and their answers.

use super::Rest;
use super::asked::{self, Asked, At, Nothing, Sent, to_the_end};
use super::problem::ProblemDocument;
use super::who::Who;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{HeldCall, HeldKind, HeldState, HeldVerdict, Remember};
use toolbooth_core::json::RawJson;
use toolbooth_engine::{Engine, HeldFilter, MAX_HELD_PAGE};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

const APPROVE: &str = "send {\"arguments\": {…}, \"remember\": \"once\"}; both may be left out";
const REJECT: &str = "send {\"reason\": \"…\"}, which may be left out";

/// A held call as REST shows it. What it holds of arguments is what its caller sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalView {
    id: String,
    kind: &'static str,
    state: &'static str,
    /// The name the caller used.
    name: String,
    server: String,
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    side_effect: Option<&'static str>,
    #[schema(value_type = Object)]
    arguments: RawJson,
    question: String,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    client: String,
    answerer: &'static str,
    /// Whether the one who looks may answer.
    yours: bool,
    created_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision_note: Option<String>,
    /// The arguments it runs with, where the answer changed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    edited: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remember: Option<&'static str>,
    /// What an approved call waits for, where it cannot run yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlaceView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeView>,
}

/// A place in a plan.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlaceView {
    id: String,
    step: u32,
}

/// How a held call ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutcomeView {
    at_ms: i64,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    result: Option<RawJson>,
}

/// A held call as this caller sees it.
pub fn view(engine: &Engine, caller: &Caller, held: HeldCall) -> ApprovalView {
    let yours = held.state == HeldState::Pending && engine.may_answer(caller, &held);
    let runnable = held.state == HeldState::Approved && held.claimed_ms.is_none();
    let waiting_for = runnable.then(|| engine.deferred_for(&held)).flatten();
    let side_effect = engine.rung_of(&held).map(|rung| rung.as_str());
    let outcome = held.outcome.map(|outcome| OutcomeView {
        at_ms: outcome.at_ms,
        kind: outcome.kind.as_str(),
        code: outcome.code,
        result: outcome.result.map(|result| toolbooth_wire::meta::strip_modern(&result)),
    });
    ApprovalView {
        id: held.id.to_string(),
        kind: held.kind.as_str(),
        state: held.state.as_str(),
        name: held.exposed,
        server: held.server.to_string(),
        tool: held.tool,
        side_effect,
        arguments: held.arguments,
        question: held.question,
        user: held.user,
        persona: held.persona,
        session: held.session,
        client: held.client,
        answerer: held.answerer.as_str(),
        yours,
        created_ms: held.created_ms,
        expires_ms: held.expires_ms,
        decided_by: held.decided_by,
        decided_ms: held.decided_ms,
        decision_note: held.decision_note,
        edited: held.edited,
        remember: held.remember.map(Remember::as_str),
        waiting_for,
        plan: held.plan.map(|place| PlaceView { id: place.plan.to_string(), step: place.step }),
        outcome,
    }
}

/// What a list of held calls can be narrowed by.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ApprovalQuery {
    /// States, with commas between them: `pending`, `approved`, `running`, `done` and so on.
    #[param(example = "pending")]
    state: Option<String>,
    /// `approval` or `plan`.
    #[param(example = "approval")]
    kind: Option<String>,
    /// At most this many; brought into range.
    limit: Option<u32>,
    /// The `next_before` of the page before.
    before: Option<String>,
}

/// A page of held calls.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalPage {
    approvals: Vec<ApprovalView>,
    /// What to give as `before` for the next page.
    next_before: Option<String>,
}

fn word<T: FromStr>(name: &str, text: &str, known: &[&str]) -> Result<T, Problem> {
    text.parse().map_err(|_| asked::bad_query(format!("`{name}` is one of {}", known.join(", "))))
}

fn filter(query: &ApprovalQuery) -> Result<HeldFilter, Problem> {
    let states = HeldState::ALL.map(HeldState::as_str);
    let kinds = HeldKind::ALL.map(HeldKind::as_str);
    let wanted = query.state.iter().flat_map(|list| list.split(','));
    Ok(HeldFilter {
        states: wanted.map(|state| word("state", state, &states)).collect::<Result<_, _>>()?,
        kind: query.kind.as_deref().map(|kind| word("kind", kind, &kinds)).transpose()?,
        before: query.before.as_deref().map(|before| word("before", before, &["their ids"])).transpose()?,
        limit: Some(query.limit.unwrap_or(100).clamp(1, MAX_HELD_PAGE)),
        ..HeldFilter::default()
    })
}

/// Lists held calls, newest first.
#[utoipa::path(
    get,
    path = "/approvals",
    params(ApprovalQuery),
    responses((status = 200, description = "A page of those the caller may see.", body = ApprovalPage))
)]
pub async fn list(
    State(rest): State<Rest>,
    Who(caller): Who,
    Asked(query): Asked<ApprovalQuery>,
) -> Result<Json<ApprovalPage>, ProblemDocument> {
    let engine = &rest.door.engine;
    let filter = filter(&query)?;
    let found = engine.held_calls(&caller, filter.clone()).await?;
    // A page may end early because its calls are long, so its length says nothing of what follows.
    let next_before = match found.last() {
        None => None,
        Some(last) => {
            let rest = HeldFilter { before: Some(last.id), limit: Some(1), ..filter };
            (!engine.held_calls(&caller, rest).await?.is_empty()).then(|| last.id.to_string())
        }
    };
    let approvals = found.into_iter().map(|held| view(engine, &caller, held)).collect();
    Ok(Json(ApprovalPage { approvals, next_before }))
}

/// Shows a held call, with its result once there is one.
#[utoipa::path(
    get,
    path = "/approvals/{id}",
    params(("id" = String, Path, description = "The held call's id.")),
    responses(
        (status = 200, description = "The held call.", body = ApprovalView),
        (status = 404, description = "`approval.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
) -> Result<Json<ApprovalView>, ProblemDocument> {
    let engine = &rest.door.engine;
    engine.sweep_held().await;
    let held = engine.held_call(&caller, held_id(&id)?).await?;
    Ok(Json(view(engine, &caller, held)))
}

fn held_id(text: &str) -> Result<Uuid, Problem> {
    asked::id(text, "approval.unknown", "held call")
}

/// The body of a yes.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveBody {
    /// Other arguments to call it with.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    arguments: Option<RawJson>,
    /// `once`, `session` or `always`: for how long the yes counts.
    #[serde(default)]
    remember: Option<String>,
}

/// Says yes to a held call: it runs, once.
#[utoipa::path(
    post,
    path = "/approvals/{id}/approve",
    params(("id" = String, Path, description = "The held call's id.")),
    request_body(content = ApproveBody, description = "May be left out."),
    responses(
        (status = 200, description = "The held call.", body = ApprovalView),
        (status = 403, description = "`approval.not-yours`."),
        (status = 404, description = "`approval.unknown`."),
        (status = 409, description = "`call.already-decided`."),
    )
)]
pub async fn approve(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
    Sent(body): Sent,
) -> Result<Json<ApprovalView>, ProblemDocument> {
    let id = held_id(&id)?;
    let body: ApproveBody = asked::body(&body, APPROVE)?;
    let remember = match body.remember.as_deref().map(str::parse::<Remember>) {
        None => None,
        Some(Ok(remember)) => Some(remember),
        Some(Err(_)) => {
            return Err(asked::bad_body("`remember` is once, session or always".into(), APPROVE).into());
        }
    };
    let verdict = HeldVerdict::Approve { arguments: body.arguments, remember };
    decide(&rest, caller, id, verdict, None).await
}

/// The body of a no.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectBody {
    /// Why; the caller is told.
    #[serde(default)]
    reason: Option<String>,
}

/// Says no to a held call.
#[utoipa::path(
    post,
    path = "/approvals/{id}/reject",
    params(("id" = String, Path, description = "The held call's id.")),
    request_body(content = RejectBody, description = "May be left out."),
    responses(
        (status = 200, description = "The held call.", body = ApprovalView),
        (status = 403, description = "`approval.not-yours`."),
        (status = 404, description = "`approval.unknown`."),
        (status = 409, description = "`call.already-decided`."),
    )
)]
pub async fn reject(
    State(rest): State<Rest>,
    Who(caller): Who,
    At(id): At<String>,
    _: Nothing,
    Sent(body): Sent,
) -> Result<Json<ApprovalView>, ProblemDocument> {
    let id = held_id(&id)?;
    let RejectBody { reason } = asked::body(&body, REJECT)?;
    decide(&rest, caller, id, HeldVerdict::Reject, reason).await
}

async fn decide(
    rest: &Rest,
    caller: Arc<Caller>,
    id: Uuid,
    verdict: HeldVerdict,
    note: Option<String>,
) -> Result<Json<ApprovalView>, ProblemDocument> {
    let (engine, by) = (rest.door.engine.clone(), caller.clone());
    let held = to_the_end(async move { engine.decide(&by, id, verdict, note).await }).await?;
    Ok(Json(view(&rest.door.engine, &caller, held)))
}
