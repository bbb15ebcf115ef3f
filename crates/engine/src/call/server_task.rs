//! Follows the task that a server has answered a call with, until the task ends. For the caller the call is only slow.

mod legacy;

pub(super) use legacy::must_run_as_task;

use super::client_channel::ClientChannel;
use super::server_answer::{input_required, only_declared, put_questions, read_answer};
use crate::answer::Answer;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use toolbooth_core::call::Sealed;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::json::{Edit, ObjectWriter, RawJson, edit_object};
use toolbooth_core::server::ServerEntry;
use toolbooth_upstream::connection::{Connection, UpstreamRequest};
use toolbooth_upstream::error::SentStatus;
use toolbooth_upstream::lease::ConnectionLease;
use toolbooth_upstream::process::preview;
use toolbooth_upstream::{PeerAnswer, UpstreamError};
use toolbooth_wire::RpcError;
use toolbooth_wire::meta::strip_gateway_error_data;

/// The pause between two requests for the state, if the server names none.
const POLL: Duration = Duration::from_secs(1);
/// The bounds of the pause that a server may name.
const MIN_POLL: Duration = Duration::from_millis(50);
const MAX_POLL: Duration = Duration::from_secs(30);
/// How many requests for the state may fail in a row.
const MAX_FAILURES: u32 = 5;
/// How long the server has to accept a cancellation.
const CANCEL_WITHIN: Duration = Duration::from_secs(10);
/// The maximum length of a task id.
const MAX_ID_BYTES: usize = 1024;

/// The members of a server's task that the gateway reads.
struct ServerTaskState {
    status: String,
    /// The pause that the server wants before the next request.
    pause: Duration,
    message: Option<RawJson>,
}

impl ServerTaskState {
    fn of(task: &RawJson) -> Self {
        let status = task.member("status");
        let named = task.member("pollIntervalMs").or_else(|| task.member("pollInterval"));
        let named = named.and_then(|pause| pause.read::<u64>().ok());
        Self {
            status: status.as_ref().and_then(RawJson::string).unwrap_or_default().into_owned(),
            pause: named.map_or(POLL, |pause| Duration::from_millis(pause).clamp(MIN_POLL, MAX_POLL)),
            message: task.member("statusMessage"),
        }
    }
}

/// A task of a server. Dropping it cancels the task there, unless it has ended.
pub(super) struct ServerTask<'a> {
    channel: &'a ClientChannel<'a>,
    connection: &'a ConnectionLease,
    handle: ServerTaskHandle,
    /// The questions that were answered, by the server's keys.
    answered: HashSet<String>,
}

impl<'a> ServerTask<'a> {
    /// The task in a server's answer to a call.
    pub(super) fn started(
        created: &RawJson,
        call: &Sealed,
        entry: &Arc<ServerEntry>,
        channel: &'a ClientChannel<'a>,
        connection: &'a ConnectionLease,
    ) -> Result<Self, UpstreamError> {
        let id = created.member("taskId").filter(|id| id.as_bytes().len() <= MAX_ID_BYTES);
        let id = id.filter(|id| id.string().is_some()).ok_or_else(|| UpstreamError::BadAnswer {
            server: connection.server.clone(),
            what: "a task without a `taskId`".to_owned(),
        })?;
        let handle = ServerTaskHandle {
            id: id.detached(),
            connection: connection.connection(),
            entry: entry.clone(),
            caller: call.caller().clone(),
            client: channel.client.clone(),
            is_running: true,
        };
        channel.link.start_task();
        Ok(Self { channel, connection, handle, answered: HashSet::new() })
    }

    /// Waits for the end of the task, and asks the client the questions that it has.
    pub(super) async fn follow(mut self, created: &RawJson) -> Result<Answer, UpstreamError> {
        let mut state = ServerTaskState::of(created);
        let (mut failures, mut polls, mut reported) = (0, 0_u64, None);
        loop {
            if state.status == "working" || failures > 0 {
                sleep(state.pause).await;
            }
            let task = match self.send("tasks/get", Vec::new()).await {
                Ok(Ok(task)) => task,
                Ok(Err(error)) => {
                    self.handle.is_running = false;
                    return Ok(Answer::Error(strip_gateway_error_data(error)));
                }
                Err(_) if failures < MAX_FAILURES => {
                    failures += 1;
                    continue;
                }
                Err(error) => return Err(self.lost(&error)),
            };
            (failures, polls) = (0, polls + 1);
            state = ServerTaskState::of(&task);
            self.channel.link.note_activity();
            match state.status.as_str() {
                "working" => {
                    if let Some(message) = state.message.take().filter(|now| reported.as_ref() != Some(now)) {
                        self.report(polls, &message);
                        reported = Some(message);
                    }
                }
                "input_required" => {
                    if let Some(end) = Box::pin(self.answer_questions(&task)).await? {
                        return Ok(end);
                    }
                    // The server may need a moment to note the answers.
                    state.status = "working".to_owned();
                }
                _ => return self.ended(&state, &task),
            }
        }
    }

    /// The answer of a task that is not running any more.
    fn ended(&mut self, state: &ServerTaskState, task: &RawJson) -> Result<Answer, UpstreamError> {
        self.handle.is_running = false;
        let bad = |what: String| UpstreamError::BadAnswer { server: self.connection.server.clone(), what };
        let answer = match state.status.as_str() {
            "completed" => {
                let result = task.member("result");
                let result = result.ok_or_else(|| bad("a completed task without a result".to_owned()))?;
                PeerAnswer::Whole(Ok(result))
            }
            "failed" => {
                let error = task.member("error").as_ref().and_then(RpcError::from_raw);
                PeerAnswer::Whole(Err(error.ok_or_else(|| bad("a failed task without an error".to_owned()))?))
            }
            "cancelled" => return Err(bad("the server cancelled the task of the call".to_owned())),
            other => {
                return Err(bad(format!("a task in the unknown state {:?}", preview(other.as_bytes(), 64))));
            }
        };
        match read_answer(answer, self.connection)? {
            Answer::Result { facts, .. } if facts.is_task => {
                Err(bad("a task as the result of a task".to_owned()))
            }
            Answer::InputRequired { .. } => Err(bad("questions as the result of a task".to_owned())),
            answer => Ok(answer),
        }
    }

    /// Asks the client the new questions of the task and sends the answers. Returns the answer of the call if a question
    /// was not answered.
    async fn answer_questions(&mut self, task: &RawJson) -> Result<Option<Answer>, UpstreamError> {
        let Answer::InputRequired { requests: Some(requests), server, .. } =
            only_declared(input_required(task, &self.connection.server)?, self.channel.client)?
        else {
            return Ok(None);
        };
        let is_answered = |key: &str| self.answered.contains(key);
        let edited = edit_object(&requests, |key, _| if is_answered(key) { Edit::Drop } else { Edit::Keep });
        let requests = edited.unwrap_or(requests);
        let keys: Vec<String> =
            requests.members().unwrap_or_default().into_iter().map(|member| member.key).collect();
        if keys.is_empty() {
            return Ok(None);
        }
        let responses = match put_questions(&requests, &server, self.channel.link).await {
            Ok(responses) => responses,
            Err(_) if self.channel.link.has_asked_too_much() => {
                return Err(UpstreamError::AskedTooMuch { server });
            }
            Err(error) => return Ok(Some(Answer::Error(error))),
        };
        let sent = self.send("tasks/update", vec![("inputResponses", responses)]).await;
        match sent.map_err(|error| self.lost(&error))? {
            Ok(_) => {
                self.answered.extend(keys);
                Ok(None)
            }
            Err(error) => Ok(Some(Answer::Error(strip_gateway_error_data(error)))),
        }
    }

    /// The failure of a request about the task. The server has accepted the call, so the call must not be sent again as
    /// if it had not.
    fn lost(&self, error: &UpstreamError) -> UpstreamError {
        let (server, reason) = (self.connection.server.clone(), error.to_string());
        UpstreamError::Lost { server, reason, sent: SentStatus::Maybe }
    }

    /// Sends a request about the task.
    async fn send(
        &self,
        method: &'static str,
        params: Vec<(&'static str, RawJson)>,
    ) -> Result<Result<RawJson, RpcError>, UpstreamError> {
        let mut request = self.handle.request(method);
        request.params.extend(params);
        Ok(match self.connection.send(request, self.channel.link).await? {
            PeerAnswer::Whole(outcome) => outcome,
            PeerAnswer::Long(long) => Ok(long.whole()),
        })
    }

    /// Passes the server's words on the state of the task on as progress.
    fn report(&self, polls: u64, message: &RawJson) {
        if message.string().is_some() {
            let mut params = ObjectWriter::default();
            params.number("progress", polls).raw("message", message);
            self.channel.link.progress(params.finish());
        }
    }
}

/// Names a task at its server. Dropping it cancels the task, unless the task has ended.
struct ServerTaskHandle {
    id: RawJson,
    connection: Arc<Connection>,
    entry: Arc<ServerEntry>,
    caller: Arc<Caller>,
    client: ClientFacts,
    is_running: bool,
}

impl ServerTaskHandle {
    /// A request about the task.
    fn request(&self, method: &'static str) -> UpstreamRequest<'_> {
        let params = vec![("taskId", self.id.clone())];
        let mut request = UpstreamRequest::plain(method, params, &self.client);
        request.forward_headers(&self.entry, &self.caller);
        request
    }
}

impl Drop for ServerTaskHandle {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !self.is_running {
            return;
        }
        let task = Self {
            id: self.id.clone(),
            connection: self.connection.clone(),
            entry: self.entry.clone(),
            caller: self.caller.clone(),
            client: self.client.clone(),
            is_running: false,
        };
        runtime.spawn(async move {
            let cancelled =
                timeout(CANCEL_WITHIN, task.connection.result(task.request("tasks/cancel"))).await;
            if !matches!(cancelled, Ok(Ok(_))) {
                let server = &task.connection.server;
                tracing::debug!(server.name = %server, "a task of `{server}` could not be cancelled");
            }
        });
    }
}
