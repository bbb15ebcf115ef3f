//! Held calls over REST: calls that wait for a decision, and the decisions.

use super::RestState;
use super::auth::RestCaller;
use super::extract::{self, NoQuery, PathParam, QueryParams, run_to_completion};
use super::item_request::ItemRequest;
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::held::{HeldCall, HeldKind, HeldState, HeldVerdict, Remember};
use toolbooth_core::json::RawJson;
use toolbooth_engine::{Approvals, HeldFilter, MAX_HELD_PAGE, RunTitle};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

const APPROVE: &str = "send {\"arguments\": {…}, \"remember\": \"once\"}; both are optional";
/// The maximum number of runs whose names are looked up for one list.
const MAX_NAMED_RUNS: usize = 100;
const REJECT: &str = "send {\"reason\": \"…\"}; the reason is optional";

/// A held call. Its arguments are those that the caller sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalView {
    id: String,
    /// `approval` or `plan`.
    kind: &'static str,
    state: &'static str,
    /// The tool name that the caller used.
    name: String,
    server: String,
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    side_effect: Option<&'static str>,
    #[schema(value_type = Object)]
    arguments: RawJson,
    /// The question to the person who decides.
    question: String,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The client that made the call.
    client: String,
    /// Who may approve: `caller_or_approver`, `in_person` or `approver_only`.
    answerer: &'static str,
    /// Whether you may decide on it.
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
    /// The arguments it runs with, if the decision changed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    edited: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remember: Option<&'static str>,
    /// What an approved call that cannot run yet is waiting for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanStepRef>,
    /// The run of a job or skill that it is a step of.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<HeldRunView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeView>,
}

/// A step of a plan.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PlaceView)]
pub struct PlanStepRef {
    id: String,
    step: u32,
}

/// The step of a run that a held call is.
#[derive(Debug, Serialize, ToSchema)]
pub struct HeldRunView {
    /// The id of the run.
    id: String,
    step: String,
    /// `job` or `skill`; absent while a caller waits for the run of a skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// The name of the job or skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
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

/// The view of a held call for this caller.
pub fn view(approvals: &Approvals, caller: &Caller, held: HeldCall) -> ApprovalView {
    let yours = held.state == HeldState::Pending && approvals.may_answer(caller, &held);
    let runnable = held.state == HeldState::Approved && held.claimed_ms.is_none();
    let waiting_for = runnable.then(|| approvals.deferred_for(&held)).flatten();
    let side_effect = approvals.rung_of(&held).map(|rung| rung.as_str());
    let run = held.run().zip(held.step()).map(|(run, step)| HeldRunView {
        id: run.to_string(),
        // The part of the run is written before the step.
        step: step.rsplit_once('/').map_or(step, |(_, id)| id).to_owned(),
        kind: None,
        name: None,
    });
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
        plan: held.plan.map(|place| PlanStepRef { id: place.plan.to_string(), step: place.step }),
        run,
        outcome,
    }
}

/// Adds the names of jobs and skills to the runs of these held calls.
async fn name_runs(rest: &RestState, shown: &mut [ApprovalView]) -> Result<(), Problem> {
    let mut known: HashMap<String, Option<RunTitle>> = HashMap::new();
    for run in shown.iter_mut().filter_map(|one| one.run.as_mut()) {
        let title = match known.get(&run.id) {
            Some(title) => title.clone(),
            None if known.len() >= MAX_NAMED_RUNS => continue,
            None => {
                let title = match run.id.parse::<Uuid>() {
                    Ok(id) => rest.engine().jobs().run_title(id).await?,
                    Err(_) => None,
                };
                known.insert(run.id.clone(), title.clone());
                title
            }
        };
        if let Some(title) = title {
            (run.kind, run.name) = (Some(title.kind), Some(title.name));
        }
    }
    Ok(())
}

/// Filters for a list of held calls.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ApprovalQuery {
    /// States, separated by commas: `pending`, `approved`, `running`, `done` and so on.
    #[param(example = "pending")]
    state: Option<String>,
    /// `approval` or `plan`.
    #[param(example = "approval")]
    kind: Option<String>,
    /// Maximum number of entries. Values out of range are clamped.
    limit: Option<u32>,
    /// The `next_before` of the previous page.
    before: Option<String>,
}

/// A page of held calls.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalPage {
    approvals: Vec<ApprovalView>,
    /// The value of `before` for the next page, if there is one.
    next_before: Option<String>,
}

fn parse_word<T: FromStr>(name: &str, text: &str, known: &[&str]) -> Result<T, Problem> {
    text.parse().map_err(|_| extract::bad_query(format!("`{name}` must be one of {}", known.join(", "))))
}

fn filter(query: &ApprovalQuery) -> Result<HeldFilter, Problem> {
    let states = HeldState::ALL.map(HeldState::as_str);
    let kinds = HeldKind::ALL.map(HeldKind::as_str);
    let wanted = query.state.iter().flat_map(|list| list.split(','));
    Ok(HeldFilter {
        states: wanted.map(|state| parse_word("state", state, &states)).collect::<Result<_, _>>()?,
        kind: query.kind.as_deref().map(|kind| parse_word("kind", kind, &kinds)).transpose()?,
        before: query
            .before
            .as_deref()
            .map(|before| parse_word("before", before, &["the ids of held calls"]))
            .transpose()?,
        limit: Some(query.limit.unwrap_or(100).clamp(1, MAX_HELD_PAGE)),
        ..HeldFilter::default()
    })
}

/// Lists held calls, newest first.
#[utoipa::path(
    get,
    path = "/approvals",
    params(ApprovalQuery),
    responses((status = 200, description = "A page of the held calls that the caller may see.", body = ApprovalPage))
)]
pub async fn list(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    QueryParams(query): QueryParams<ApprovalQuery>,
) -> Result<Json<ApprovalPage>, ProblemDocument> {
    let approvals = rest.engine().approvals();
    let filter = filter(&query)?;
    let found = approvals.list(&caller, filter.clone()).await?;
    // A page may end early because its calls are long, so its length does not tell whether more follow.
    let next_before = match found.last() {
        None => None,
        Some(last) => {
            let rest = HeldFilter { before: Some(last.id), limit: Some(1), ..filter };
            (!approvals.list(&caller, rest).await?.is_empty()).then(|| last.id.to_string())
        }
    };
    let mut approvals: Vec<ApprovalView> =
        found.into_iter().map(|held| view(approvals, &caller, held)).collect();
    name_runs(&rest, &mut approvals).await?;
    Ok(Json(ApprovalPage { approvals, next_before }))
}

/// Shows a held call, with its result if it has one.
#[utoipa::path(
    get,
    path = "/approvals/{id}",
    params(("id" = String, Path, description = "The id of the held call.")),
    responses(
        (status = 200, description = "The held call.", body = ApprovalView),
        (status = 404, description = "`approval.unknown`."),
    )
)]
pub async fn show(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<ApprovalView>, ProblemDocument> {
    let approvals = rest.engine().approvals();
    approvals.sweep().await;
    let held = approvals.get(&caller, held_id(&id)?).await?;
    let mut shown = view(approvals, &caller, held);
    name_runs(&rest, std::slice::from_mut(&mut shown)).await?;
    Ok(Json(shown))
}

fn held_id(text: &str) -> Result<Uuid, Problem> {
    extract::id(text, "approval.unknown", "held call")
}

/// The body of an approval.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveBody {
    /// Arguments to call the tool with instead.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    arguments: Option<RawJson>,
    /// How long the approval is valid: `once`, `session` or `always`.
    #[serde(default)]
    remember: Option<String>,
}

/// Approves a held call. It runs once.
#[utoipa::path(
    post,
    path = "/approvals/{id}/approve",
    params(("id" = String, Path, description = "The id of the held call.")),
    request_body(content = ApproveBody, description = "Optional."),
    responses(
        (status = 200, description = "The held call.", body = ApprovalView),
        (status = 400, description = "`approval.not-remembered`."),
        (status = 403, description = "`approval.not-yours`."),
        (status = 404, description = "`approval.unknown`."),
        (status = 409, description = "`call.already-decided`."),
    )
)]
pub async fn approve(
    State(rest): State<RestState>,
    ItemRequest { caller, id, body }: ItemRequest,
) -> Result<Json<ApprovalView>, ProblemDocument> {
    let id = held_id(&id)?;
    let body: ApproveBody = extract::body(&body, APPROVE)?;
    let remember = match body.remember.as_deref().map(str::parse::<Remember>) {
        None => None,
        Some(Ok(remember)) => Some(remember),
        Some(Err(_)) => {
            return Err(
                extract::bad_body("`remember` must be once, session or always".into(), APPROVE).into()
            );
        }
    };
    if remember == Some(Remember::Session) {
        let held = rest.engine().approvals().get(&caller, id).await?;
        // Nothing would be remembered, so that the next call is held again.
        if held.session.is_none() {
            return Err(Problem {
                code: "approval.not-remembered",
                blame: Blame::Caller,
                message: format!("held call {id} has no session, so its approval cannot be remembered for one"),
                hint: Some("omit `remember`, or set it to `always`; `toolbooth call --session NAME` makes a call in a session".into()),
            }
            .into());
        }
    }
    let verdict = HeldVerdict::Approve { arguments: body.arguments, remember };
    decide(&rest, caller, id, verdict, None).await
}

/// The body of a rejection.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectBody {
    /// The reason, which the caller receives.
    #[serde(default)]
    reason: Option<String>,
}

/// Rejects a held call.
#[utoipa::path(
    post,
    path = "/approvals/{id}/reject",
    params(("id" = String, Path, description = "The id of the held call.")),
    request_body(content = RejectBody, description = "Optional."),
    responses(
        (status = 200, description = "The held call.", body = ApprovalView),
        (status = 403, description = "`approval.not-yours`."),
        (status = 404, description = "`approval.unknown`."),
        (status = 409, description = "`call.already-decided`."),
    )
)]
pub async fn reject(
    State(rest): State<RestState>,
    ItemRequest { caller, id, body }: ItemRequest,
) -> Result<Json<ApprovalView>, ProblemDocument> {
    let id = held_id(&id)?;
    let RejectBody { reason } = extract::body(&body, REJECT)?;
    decide(&rest, caller, id, HeldVerdict::Reject, reason).await
}

async fn decide(
    rest: &RestState,
    caller: Arc<Caller>,
    id: Uuid,
    verdict: HeldVerdict,
    note: Option<String>,
) -> Result<Json<ApprovalView>, ProblemDocument> {
    let (approvals, by) = (rest.engine().approvals().clone(), caller.clone());
    let held = run_to_completion(async move { approvals.decide(&by, id, verdict, note).await }).await?;
    Ok(Json(view(rest.engine().approvals(), &caller, held)))
}
