//! Calls that have not ended: a list with the open questions of their servers, and cancelling one. Calls of MCP clients
//! are listed too; their questions go to the client.

use super::super::RestState;
use super::super::auth::RestCaller;
use super::super::extract::{self, NoQuery, PathParam};
use super::super::problem::ProblemDocument;
use super::questions::{ServerQuestionView, handle};
use crate::mcp::client_calls::ClientCall;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::Act;
use toolbooth_engine::approvals::Cancellation;
use utoipa::ToSchema;
use uuid::Uuid;

/// The maximum number of calls in a list.
const MAX_LISTED: usize = 500;
/// The maximum length of a tool's name in the list, in characters.
const MAX_NAME: usize = 256;

/// The calls over REST that have not ended.
#[derive(Debug, Default)]
pub struct RunningCalls(Mutex<HashMap<Uuid, OpenCall>>);

/// A call that has not ended.
#[derive(Debug)]
struct OpenCall {
    user: Arc<str>,
    tool: String,
    at_ms: i64,
    /// The question that it waits for.
    question: Option<ServerQuestionView>,
    cancel: CancellationToken,
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
        tool: &str,
        at_ms: i64,
    ) -> RunningCallEntry {
        let cancel = CancellationToken::new();
        let call = OpenCall {
            user: caller.user.clone(),
            tool: tool.chars().take(MAX_NAME).collect(),
            at_ms,
            question: None,
            cancel: cancel.clone(),
        };
        self.lock().insert(id, call);
        RunningCallEntry { calls: self.clone(), id, cancel }
    }

    /// Sets the question that a call waits for.
    pub(super) fn set_question(&self, id: Uuid, question: Option<ServerQuestionView>) {
        if let Some(call) = self.lock().get_mut(&id) {
            call.question = question;
        }
    }

    /// The calls that a caller may see, oldest first. Only the user of a call can answer its question.
    fn list(&self, caller: &Caller) -> Vec<RunningCallView> {
        let views = {
            let calls = self.lock();
            let visible = calls.iter().filter(|(_, call)| may_see(caller, &call.user));
            visible.map(|(id, call)| RunningCallView::of(*id, call, caller)).collect()
        };
        oldest_first(views)
    }

    /// The user of a call, if the caller may see it.
    fn user_of(&self, id: Uuid, caller: &Caller) -> Option<Arc<str>> {
        let calls = self.lock();
        calls.get(&id).map(|call| call.user.clone()).filter(|user| may_see(caller, user))
    }

    /// Cancels a call; returns its user, or `None` if the caller sees no such call.
    fn cancel(&self, id: Uuid, caller: &Caller) -> Option<Arc<str>> {
        let calls = self.lock();
        let call = calls.get(&id).filter(|call| may_see(caller, &call.user))?;
        call.cancel.cancel();
        Some(call.user.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, OpenCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Callers see their own calls, administrators those of all users.
fn may_see(caller: &Caller, user: &str) -> bool {
    caller.admin == Admin::Yes || *caller.user == *user
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
    /// `running`, or `asks` if its server waits for an answer of the caller.
    state: &'static str,
    /// The MCP client that made it; absent for a call over REST.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// The question, for the user of the call: `POST /calls/{id}/answer` answers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<ServerQuestionView>,
}

impl RunningCallView {
    fn of(id: Uuid, call: &OpenCall, caller: &Caller) -> Self {
        let OpenCall { user, tool, at_ms, question, cancel: _ } = call;
        Self {
            id: id.to_string(),
            user: user.clone(),
            tool: tool.clone(),
            at_ms: *at_ms,
            state: if question.is_some() { "asks" } else { "running" },
            client: None,
            question: question.clone().filter(|_| *user == caller.user),
        }
    }

    fn of_client(id: Uuid, call: ClientCall) -> Self {
        let client = Some(call.client.name());
        let ClientCall { user, tool, at_ms, .. } = call;
        Self { id: id.to_string(), user, tool, at_ms, state: "running", client, question: None }
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
/// A call over REST whose server asks a question is listed with the question.
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
    let mut calls = rest.running_calls.list(&caller);
    let of_clients = rest.door.client_calls.visible_to(&caller).into_iter();
    calls.extend(of_clients.map(|(id, call)| RunningCallView::of_client(id, call)));
    Json(RunningCallsView { calls: oldest_first(calls) })
}

/// A cancelled call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CancelledView {
    /// The id of the call.
    call: String,
    /// Always `cancelling`: the gateway asks the server to stop, but the server may already have done its work.
    state: &'static str,
}

/// Cancels a call: the caller's own, or one of any user for an administrator.
///
/// The request that made the call is answered with `call.cancelled`, also if an MCP client made it. If the call waits for
/// approval, its held call is withdrawn: it counts as rejected by the caller of this operation, and cannot run any more.
#[utoipa::path(
    post,
    path = "/calls/{id}/cancel",
    params(("id" = String, Path, description = "The id of the call.")),
    responses(
        (status = 202, description = "The call is being cancelled.", body = CancelledView),
        (status = 404, description = "`call.unknown`: there is no such call, or it has ended."),
    )
)]
pub async fn cancel(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<(StatusCode, Json<CancelledView>), ProblemDocument> {
    let call = extract::id(&id, "call.unknown", "running call")?;
    let user = rest.running_calls.user_of(call, &caller);
    let user = user.or_else(|| rest.door.client_calls.user_of(call, &caller)).ok_or_else(|| Problem {
        code: "call.unknown",
        blame: Blame::Caller,
        message: format!("no call `{call}` is running"),
        hint: Some("it may have ended, or it may belong to another user".into()),
    })?;
    // First what is stored, so that the call can run neither now nor later. The request that waits ends after it, also if
    // the store fails: a call that runs is cancelled in any case.
    let cancellation =
        Cancellation { call, by: caller.user.to_string(), reason: "the call was cancelled".into() };
    let withdrawn = rest.door.engine.approvals().withdraw_or_retry(cancellation, Vec::new()).await;
    if rest.running_calls.cancel(call, &caller).is_none() {
        rest.door.client_calls.cancel(call, &caller);
    }
    // No request follows a call that waits for an answer. Dropping it cancels it at the server.
    drop(rest.door.engine.parking().take_of(&user, &handle(call)));
    if *user != *caller.user {
        let act = Act { user: Some(&user), ..Act::new(AuditKind::Cancellation, &caller.user, "cancelled") };
        let id = call.to_string();
        rest.door.engine.audit().record_act(act.with(&[("call", id.as_str())])).await?;
    }
    withdrawn?;
    Ok((StatusCode::ACCEPTED, Json(CancelledView { call: call.to_string(), state: "cancelling" })))
}

/// The error for the request whose call was cancelled.
pub(super) fn cancelled(id: Uuid) -> Problem {
    Problem {
        code: "call.cancelled",
        blame: Blame::Caller,
        message: format!("call `{id}` was cancelled; its server may have done its work already"),
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn caller(user: &str, admin: Admin) -> Caller {
        Caller { admin, ..Caller::owner(user) }
    }

    #[test]
    fn callers_see_and_cancel_their_own_calls_and_administrators_all() {
        let calls = Arc::new(RunningCalls::default());
        let (ann, bob) = (caller("ann", Admin::No), caller("bob", Admin::No));
        let root = caller("root", Admin::Yes);
        let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let hers = calls.begin(first, &ann, "slow", 5);
        let his = calls.begin(second, &bob, "slow", 3);
        let ids = |caller: &Caller| calls.list(caller).into_iter().map(|call| call.id).collect::<Vec<_>>();
        assert_eq!(ids(&ann), [first.to_string()]);
        assert_eq!(ids(&root), [second.to_string(), first.to_string()]);
        assert!(calls.cancel(first, &bob).is_none() && !hers.cancel.is_cancelled());
        assert_eq!(calls.cancel(first, &root), Some("ann".into()));
        assert!(hers.cancel.is_cancelled() && !his.cancel.is_cancelled());
        drop(hers);
        assert!(ids(&ann).is_empty() && calls.cancel(first, &ann).is_none());
    }

    #[test]
    fn a_question_is_shown_to_the_user_of_the_call_only() {
        let calls = Arc::new(RunningCalls::default());
        let ann = caller("ann", Admin::No);
        let id = Uuid::from_u128(1);
        let _hers = calls.begin(id, &ann, "ask", 5);
        calls.set_question(id, Some(ServerQuestionView::for_tests()));
        let shown = |caller: &Caller| serde_json::to_value(calls.list(caller)).expect("JSON");
        assert_eq!(shown(&ann)[0]["question"]["message"], "Who comes?");
        let root = shown(&caller("root", Admin::Yes));
        assert_eq!((&root[0]["state"], root[0].get("question")), (&json!("asks"), None));
    }
}
