//! Calls that have not ended: a list with the open questions of their servers, and cancelling one, also one that is held
//! and whose request has ended. Calls of MCP clients are listed too; their questions go to the client.

use super::super::RestState;
use super::super::auth::RestCaller;
use super::super::extract::{self, NoQuery, PathParam, run_to_completion};
use super::super::problem::ProblemDocument;
use super::questions::handle;
use super::records;
use super::waiting_question::{ServerQuestionView, WaitingQuestion};
use crate::mcp::client_calls::ClientCall;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::permission::{Permission, on_owned_work};
use toolbooth_engine::approvals::Cancellation;
use toolbooth_engine::{Act, PersonSampling, SamplingDraft};
use utoipa::ToSchema;
use uuid::Uuid;

/// The maximum number of calls in a list.
const MAX_LISTED: usize = 500;
/// The maximum length of a tool's name in the list, in characters.
const MAX_NAME: usize = 256;
/// Why the held call of a cancelled call is withdrawn.
const CANCELLED: &str = "the call was cancelled";

/// The calls over REST that have not ended.
#[derive(Debug, Default)]
pub struct RunningCalls(Mutex<HashMap<Uuid, OpenCall>>);

/// A call that has not ended.
#[derive(Debug)]
struct OpenCall {
    user: Arc<str>,
    tool: String,
    at_ms: i64,
    /// The name that the caller chose for the request.
    request: Option<String>,
    /// The question that it waits for.
    question: Option<WaitingQuestion>,
    /// The number of answers that the gateway's model was asked to draft.
    drafts: u32,
    cancel: CancellationToken,
}

/// A call that begins.
#[derive(Debug)]
pub(super) struct NewCall<'a> {
    /// The name of the tool, as the caller wrote it.
    pub(super) tool: &'a str,
    /// When it begins, in milliseconds since 1970.
    pub(super) at_ms: i64,
    /// The name that the caller chose for the request.
    pub(super) request: Option<String>,
}

/// Keeps a call in the list until it is dropped.
#[derive(Debug)]
pub(super) struct RunningCallEntry {
    calls: Arc<RunningCalls>,
    id: Uuid,
    cancel: CancellationToken,
}

impl RunningCallEntry {
    /// Waits until the call is cancelled.
    pub(super) async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }
}

impl Drop for RunningCallEntry {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.id);
    }
}

impl RunningCalls {
    /// Adds a call to the list.
    pub(super) fn begin(
        self: &Arc<Self>,
        id: Uuid,
        caller: &Caller,
        NewCall { tool, at_ms, request }: NewCall<'_>,
    ) -> RunningCallEntry {
        let cancel = CancellationToken::new();
        let call = OpenCall {
            user: caller.user.clone(),
            tool: tool.chars().take(MAX_NAME).collect(),
            at_ms,
            request,
            question: None,
            drafts: 0,
            cancel: cancel.clone(),
        };
        self.lock().insert(id, call);
        RunningCallEntry { calls: self.clone(), id, cancel }
    }

    /// Sets the question that a call waits for.
    pub(super) fn set_question(&self, id: Uuid, question: Option<WaitingQuestion>) {
        if let Some(call) = self.lock().get_mut(&id) {
            call.question = question;
        }
    }

    /// The question that a call waits for.
    pub(super) fn question(&self, id: Uuid) -> Option<WaitingQuestion> {
        self.lock().get(&id).and_then(|call| call.question.clone())
    }

    /// Counts a draft of the answer to a sampling request. Returns the request and the number of earlier drafts, or `None`
    /// if the call of this user does not wait for such an answer.
    pub(super) fn begin_draft(&self, id: Uuid, user: &str) -> Option<(PersonSampling, u32)> {
        let mut calls = self.lock();
        let call = calls.get_mut(&id).filter(|call| *call.user == *user)?;
        let asked = call.question.as_ref()?.sampling.clone()?;
        let earlier = call.drafts;
        call.drafts = earlier.saturating_add(1);
        Some((asked, earlier))
    }

    /// Keeps the draft of an answer, if its request still waits.
    pub(super) fn set_draft(&self, id: Uuid, asked: &PersonSampling, draft: SamplingDraft) {
        let mut calls = self.lock();
        let waiting = calls.get_mut(&id).and_then(|call| call.question.as_mut());
        let is_same = |waiting: &&mut WaitingQuestion| {
            waiting.sampling.as_ref().is_some_and(|current| current.params == asked.params)
        };
        if let Some(waiting) = waiting.filter(is_same) {
            waiting.draft = Some(draft);
        }
    }

    /// The calls that a caller may see, oldest first. Only the user of a call can answer its question. `waiting` are the
    /// calls that wait for a person, with their held calls.
    fn list(&self, caller: &Caller, waiting: &HashMap<Uuid, Uuid>) -> Vec<RunningCallView> {
        let views = {
            let calls = self.lock();
            let visible =
                calls.iter().filter(|(_, call)| on_owned_work(caller, &call.user) == Permission::Granted);
            let views = visible.map(|(id, call)| (id, RunningCallView::of(*id, call, caller)));
            views.map(|(id, view)| view.waiting_for(waiting.get(id))).collect()
        };
        oldest_first(views)
    }

    /// The user of a call, if the caller may see it.
    fn user_of(&self, id: Uuid, caller: &Caller) -> Option<Arc<str>> {
        let calls = self.lock();
        calls
            .get(&id)
            .map(|call| call.user.clone())
            .filter(|user| on_owned_work(caller, user) == Permission::Granted)
    }

    /// Cancels a call; returns its user, or `None` if the caller sees no such call.
    fn cancel(&self, id: Uuid, caller: &Caller) -> Option<Arc<str>> {
        let calls = self.lock();
        let call = calls.get(&id).filter(|call| on_owned_work(caller, &call.user) == Permission::Granted)?;
        call.cancel.cancel();
        Some(call.user.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, OpenCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that has not ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunningCallView {
    /// The id of the call.
    id: String,
    #[schema(value_type = String)]
    user: Arc<str>,
    /// The name of the tool, as the caller wrote it.
    tool: String,
    /// When it began, in milliseconds since 1970.
    at_ms: i64,
    /// `running`, `asks` if its server waits for an answer of the caller, or `held` if it waits for approval.
    state: &'static str,
    /// The held call, if it waits for approval: `GET /approvals/{id}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
    /// The MCP client that made it; absent for a call over REST.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// The name that the user of the call chose for the request. Only this user sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    /// The question, for the user of the call: `POST /calls/{id}/answer` answers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<ServerQuestionView>,
}

impl RunningCallView {
    fn of(id: Uuid, call: &OpenCall, caller: &Caller) -> Self {
        let OpenCall { user, tool, at_ms, request, question, drafts: _, cancel: _ } = call;
        Self {
            id: id.to_string(),
            user: user.clone(),
            tool: tool.clone(),
            at_ms: *at_ms,
            state: if question.is_some() { "asks" } else { "running" },
            held: None,
            client: None,
            request: request.clone().filter(|_| *user == caller.user),
            question: question.as_ref().filter(|_| *user == caller.user).map(WaitingQuestion::view),
        }
    }

    fn of_client(id: Uuid, call: ClientCall) -> Self {
        let client = Some(call.client.name());
        let ClientCall { user, tool, at_ms, .. } = call;
        let (held, request, question) = (None, None, None);
        Self { id: id.to_string(), user, tool, at_ms, state: "running", held, client, request, question }
    }

    /// Notes the held call that the call waits for.
    fn waiting_for(self, held: Option<&Uuid>) -> Self {
        match held {
            Some(held) => Self { state: "held", held: Some(held.to_string()), ..self },
            None => self,
        }
    }
}

/// Sorts the calls, oldest first, and limits their number.
fn oldest_first(mut views: Vec<RunningCallView>) -> Vec<RunningCallView> {
    views.sort_by(|one, other| (one.at_ms, &one.id).cmp(&(other.at_ms, &other.id)));
    views.truncate(MAX_LISTED);
    views
}

/// The calls that have not ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunningCallsView {
    /// Oldest first, at most 500.
    calls: Vec<RunningCallView>,
}

/// Lists calls that have not ended: the caller's own, or those of all users for an administrator.
///
/// A call over REST whose server asks a question is listed with the question, and a call that waits for approval with its
/// held call.
#[utoipa::path(
    get,
    path = "/calls/running",
    responses((status = 200, description = "The calls.", body = RunningCallsView))
)]
pub async fn running(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    _: NoQuery,
) -> Json<RunningCallsView> {
    let waiting = rest.engine().approvals().waiting_calls();
    let mut calls = rest.running_calls.list(&caller, &waiting);
    let of_clients = rest.front_end.client_calls.visible_to(&caller).into_iter();
    calls.extend(
        of_clients.map(|(id, call)| RunningCallView::of_client(id, call).waiting_for(waiting.get(&id))),
    );
    Json(RunningCallsView { calls: oldest_first(calls) })
}

/// A cancelled call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CancelledView {
    /// The id that the request named.
    call: String,
    /// `cancelling`: the gateway asks the server to stop, but the server may already have done its work. `cancelled`: the
    /// call waited for approval and was not run.
    state: &'static str,
    /// The held call that was withdrawn, if the call waited for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
}

/// Cancels a call: the caller's own, or one of any user for an administrator.
///
/// The request that made the call is answered with `call.cancelled`, also if an MCP client made it. If the call waits for
/// approval, its held call is withdrawn: it counts as rejected by the caller of this operation, and cannot run any more.
/// That also works after the request was answered with 202, with the id of the call or of its held call.
#[utoipa::path(
    post,
    path = "/calls/{id}/cancel",
    params(("id" = String, Path, description = "The id of the call, or of its held call.")),
    responses(
        (status = 202, description = "The call is being cancelled, or was cancelled before it ran.", body = CancelledView),
        (status = 404, description = "`call.unknown`: there is no such call, or it has ended."),
        (status = 409, description = "`call.already-decided`: its held call was decided already, and may run."),
    )
)]
pub async fn cancel(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<(StatusCode, Json<CancelledView>), ProblemDocument> {
    let named = extract::id(&id, "call.unknown", "running call")?;
    let approvals = rest.engine().approvals();
    let waiting = approvals.waiting_calls();
    let call = waiting_request(&waiting, named).unwrap_or(named);
    let user = rest.running_calls.user_of(call, &caller);
    let Some(user) = user.or_else(|| rest.front_end.client_calls.user_of(call, &caller)) else {
        return cancel_held(&rest, caller, named).await;
    };
    // First what is stored, so that the call can run neither now nor later. The request that waits ends after it, also if
    // the store fails: a call that runs is cancelled in any case.
    let cancellation = Cancellation { call, by: caller.user.to_string(), reason: CANCELLED.into() };
    let withdrawn = approvals.withdraw_or_retry(cancellation, Vec::new()).await;
    // Read again: a person may have approved it meanwhile. A held call for which others wait, too, is left to them.
    let waiting = approvals.waiting_calls();
    let state = if waiting.contains_key(&call) { "cancelled" } else { "cancelling" };
    let held = waiting.get(&call).filter(|held| waiting_request(&waiting, **held).is_some());
    let held = held.map(Uuid::to_string);
    if rest.running_calls.cancel(call, &caller).is_none() {
        rest.front_end.client_calls.cancel(call, &caller);
    }
    // No request follows a call that waits for an answer. Dropping it cancels it at the server.
    drop(rest.engine().parking().take_of(&user, &handle(call)));
    if *user != *caller.user {
        let act = Act { user: Some(&user), ..Act::new(AuditKind::Cancellation, &caller.user, "cancelled") };
        let id = call.to_string();
        rest.engine().audit().record_act(act.with(&[("call", id.as_str())])).await?;
    }
    withdrawn?;
    Ok((StatusCode::ACCEPTED, Json(CancelledView { call: named.to_string(), state, held })))
}

/// The call that waits for this held call, if one request waits for it. If several wait, all are notified.
fn waiting_request(waiting: &HashMap<Uuid, Uuid>, held: Uuid) -> Option<Uuid> {
    let mut calls = waiting.iter().filter(|(_, waits_for)| **waits_for == held).map(|(call, _)| *call);
    let first = calls.next()?;
    calls.next().is_none().then_some(first)
}

/// Cancels a call that is held and whose request has ended, by the id of the call or of the held call.
async fn cancel_held(
    rest: &RestState,
    caller: Arc<Caller>,
    named: Uuid,
) -> Result<(StatusCode, Json<CancelledView>), ProblemDocument> {
    let recorded = records::held_of(rest, &caller, named).await?;
    let approvals = rest.engine().approvals().clone();
    let found = approvals.find_cancellable(&caller, named, recorded).await?;
    let held = found.ok_or_else(|| Problem {
        code: "call.unknown",
        blame: Blame::Caller,
        message: format!("no call `{named}` is running or waits for approval"),
        hint: Some("it may have ended, or it may belong to another user".into()),
    })?;
    let withdrawing = async move { approvals.withdraw_one(&held, &caller.user, CANCELLED).await };
    let held = Some(run_to_completion(withdrawing).await?.id.to_string());
    Ok((StatusCode::ACCEPTED, Json(CancelledView { call: named.to_string(), state: "cancelled", held })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::client_calls::cancelled;
    use serde_json::json;
    use toolbooth_core::caller::Admin;

    fn caller(user: &str, admin: Admin) -> Caller {
        Caller { admin, ..Caller::owner(user) }
    }

    fn begun(at_ms: i64) -> NewCall<'static> {
        NewCall { tool: "slow", at_ms, request: Some("form-1".to_owned()) }
    }

    #[test]
    fn callers_see_and_cancel_their_own_calls_and_administrators_all() {
        let calls = Arc::new(RunningCalls::default());
        let (ann, bob) = (caller("ann", Admin::No), caller("bob", Admin::No));
        let root = caller("root", Admin::Yes);
        let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let hers = calls.begin(first, &ann, begun(5));
        let his = calls.begin(second, &bob, begun(3));
        let listed = |caller: &Caller| calls.list(caller, &HashMap::new());
        let ids = |caller: &Caller| listed(caller).into_iter().map(|call| call.id).collect::<Vec<_>>();
        assert_eq!(ids(&ann), [first.to_string()]);
        assert_eq!(ids(&root), [second.to_string(), first.to_string()]);
        assert!(calls.cancel(first, &bob).is_none() && !hers.cancel.is_cancelled());
        assert_eq!(calls.cancel(first, &root), Some("ann".into()));
        assert!(hers.cancel.is_cancelled() && !his.cancel.is_cancelled());
        drop(hers);
        assert!(ids(&ann).is_empty() && calls.cancel(first, &ann).is_none());
    }

    #[test]
    fn the_name_of_a_request_is_shown_to_the_user_of_the_call_only() {
        let calls = Arc::new(RunningCalls::default());
        let ann = caller("ann", Admin::No);
        let _hers = calls.begin(Uuid::from_u128(1), &ann, begun(5));
        let shown =
            |caller: &Caller| serde_json::to_value(calls.list(caller, &HashMap::new())).expect("JSON");
        assert_eq!(shown(&ann)[0]["request"], "form-1");
        assert_eq!(shown(&caller("root", Admin::Yes))[0].get("request"), None);
    }

    #[test]
    fn a_question_is_shown_to_the_user_of_the_call_only() {
        let calls = Arc::new(RunningCalls::default());
        let ann = caller("ann", Admin::No);
        let id = Uuid::from_u128(1);
        let _hers = calls.begin(id, &ann, begun(5));
        calls.set_question(id, Some(WaitingQuestion::for_tests()));
        let waiting = HashMap::new();
        let shown = |caller: &Caller| serde_json::to_value(calls.list(caller, &waiting)).expect("JSON");
        assert_eq!(shown(&ann)[0]["question"]["message"], "Who comes?");
        let root = shown(&caller("root", Admin::Yes));
        assert_eq!((&root[0]["state"], root[0].get("question")), (&json!("asks"), None));
    }

    #[test]
    fn a_call_that_waits_for_a_person_is_held_and_was_not_run() {
        let calls = Arc::new(RunningCalls::default());
        let ann = caller("ann", Admin::No);
        let (id, other, held) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(9));
        let _hers = calls.begin(id, &ann, begun(5));
        let waiting = HashMap::from([(id, held)]);
        let shown = serde_json::to_value(calls.list(&ann, &waiting)).expect("JSON");
        assert_eq!((&shown[0]["state"], &shown[0]["held"]), (&json!("held"), &json!(held.to_string())));
        assert!(cancelled(id, &waiting).message.ends_with("it was not run"));
        assert!(cancelled(other, &waiting).message.ends_with("may have done its work already"));
        assert_eq!(waiting_request(&waiting, held), Some(id));
        let twice = HashMap::from([(id, held), (other, held)]);
        assert_eq!((waiting_request(&twice, held), waiting_request(&twice, id)), (None, None));
    }
}
