//! A call that its client follows as a task: the client gets the id of a task instead of the answer, and the call goes on
//! without the request.

use super::{FinalAnswer, RunningRequest, reached};
use crate::mcp::client::McpClient;
use crate::mcp::{legacy_tasks, tasks};
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::json::RawJson;
use toolbooth_engine::call_tasks::{CallTaskEnd, RunningCallTask, TaskCommand};
use toolbooth_upstream::{ClientQuestion, LinkEvent};
use toolbooth_wire::codes::INTERNAL_ERROR;
use toolbooth_wire::{Era, RpcError};
use uuid::Uuid;

/// How long a client waits for the result of a call before it gets a task instead.
const TASK_AFTER: Duration = Duration::from_millis(500);

/// A call that can become a task.
pub(super) struct TaskOffer {
    call: Uuid,
    tool: String,
    /// When it becomes a task, unless it has ended.
    pub(super) due: Instant,
    creating: Option<BoxFuture<'static, Option<RunningCallTask>>>,
    demand: TaskDemand,
}

/// Whether the client has asked for the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskDemand {
    /// The gateway decides. Without a task, the client waits for the result.
    Optional,
    /// The client has asked for a task and expects no result, so the call does not begin without one.
    Required,
}

impl TaskOffer {
    /// The id and the tool of the call.
    pub(super) fn into_parts(self) -> (Uuid, String) {
        (self.call, self.tool)
    }
}

impl std::fmt::Debug for TaskOffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskOffer").field("call", &self.call).finish_non_exhaustive()
    }
}

/// The next event of a task.
enum CallTaskStep {
    /// The questions have changed.
    Asked,
    /// The server described what it does.
    Described(String),
    /// The call has ended.
    Ended(FinalAnswer),
}

impl RunningRequest {
    /// Lets a call with this id and tool become a task if it takes long, or if its server continues it as a task.
    pub fn offering_task(mut self: Box<Self>, task: Option<(Uuid, String)>) -> Box<Self> {
        self.offer = task.map(|(call, tool)| {
            let due = Instant::now() + TASK_AFTER;
            Box::new(TaskOffer { call, tool, due, creating: None, demand: TaskDemand::Optional })
        });
        self
    }

    /// Makes a call with this id and tool a task before it begins, as its client has asked.
    pub fn requiring_task(mut self: Box<Self>, (call, tool): (Uuid, String)) -> Box<Self> {
        let (due, demand) = (Instant::now(), TaskDemand::Required);
        self.offer = Some(Box::new(TaskOffer { call, tool, due, creating: None, demand }));
        self.begin_task();
        self
    }

    /// Whether the call must not begin before its task is stored.
    pub(super) fn awaits_task(&self) -> bool {
        self.offer.as_ref().is_some_and(|offer| offer.demand == TaskDemand::Required)
    }

    /// Begins to create the task, if the call can become one.
    pub(super) fn begin_task(&mut self) {
        let Some(offer) = self.offer.as_mut().filter(|offer| offer.creating.is_none()) else { return };
        let call_tasks = Arc::clone(self.front_end.engine.call_tasks());
        let (caller, call, tool) = (self.client.caller.clone(), offer.call, std::mem::take(&mut offer.tool));
        let tool = tasks::called_tool(&self.front_end, &caller, tool);
        offer.creating = Some(Box::pin(async move { call_tasks.create(&caller, call, tool).await }));
    }

    /// Waits for the task that is being created, if there is one, and continues the call with it. The call does not
    /// continue meanwhile. Returns the answer to the client's request if the call has become a task, or cannot begin
    /// without one. Cancel-safe.
    pub(super) async fn answer_with_task(&mut self) -> Option<FinalAnswer> {
        let created = self.offer.as_mut()?.creating.as_mut()?.await;
        let is_required = self.awaits_task();
        self.offer = None;
        match created {
            Some(task) => Some(self.continue_as_task(task)),
            None if is_required => {
                self.ongoing = None;
                Some(FinalAnswer::Error(no_task()))
            }
            None => None,
        }
    }

    /// Continues the call as a task, and returns the answer to the client's request.
    fn continue_as_task(&mut self, task: RunningCallTask) -> FinalAnswer {
        let created = match self.client.era() {
            Era::Modern => tasks::created(&self.front_end, task.record()),
            Era::Legacy => legacy_tasks::created(&self.front_end, task.record()),
        };
        if let Some(ongoing) = &self.ongoing {
            ongoing.events.follow_as_task();
        }
        let followed = Box::new(Self {
            front_end: self.front_end.clone(),
            // Its questions are published with the task, not asked on the stream of this request.
            client: McpClient { session: None, ..self.client.clone() },
            id: self.id.clone(),
            method: self.method,
            ongoing: self.ongoing.take(),
            binding: None,
            progress_token: None,
            cancelled: None,
            messages: VecDeque::new(),
            questions: std::mem::take(&mut self.questions),
            asked: Vec::new(),
            visits: Vec::new(),
            questions_until: self.questions_until.take(),
            outcome: self.outcome.take(),
            given: self.given.take(),
            offer: None,
            task_keys: Some(0),
        });
        tokio::spawn(followed.run_as_task(task));
        FinalAnswer::Result(created)
    }

    /// Runs the call to its end, publishes its questions, and carries out the commands of the client.
    async fn run_as_task(mut self: Box<Self>, mut task: RunningCallTask) {
        loop {
            tokio::select! {
                biased;
                (command, done) = task.next_command() => {
                    match command {
                        TaskCommand::Answers(responses) => {
                            self.take_answers(&responses);
                            task.ask(self.open_requests()).await;
                        }
                        TaskCommand::Cancel => {
                            let cancellation = tasks::cancellation(task.record());
                            let approvals = Arc::clone(self.front_end.engine.approvals());
                            // Before the work ends, so that the held call does not run without it. If that fails, it is
                            // tried again in the background, and the work ends now.
                            let _ = approvals.withdraw_or_retry(cancellation, Vec::new()).await;
                            self.ongoing = None; // Dropping the work cancels it, down to the server.
                            return task.end(CallTaskEnd::Cancelled).await;
                        }
                    }
                    if let Some(done) = done {
                        let _ = done.send(());
                    }
                }
                step = self.next_of_task() => match step {
                    CallTaskStep::Asked => task.ask(self.open_requests()).await,
                    CallTaskStep::Described(text) => task.describe(&text),
                    CallTaskStep::Ended(answer) => return task.end(end_of(answer)).await,
                },
            }
        }
    }

    /// The next event of the call. Cancel-safe.
    async fn next_of_task(&mut self) -> CallTaskStep {
        loop {
            if let Some(outcome) = self.outcome.take() {
                return CallTaskStep::Ended(self.finish(outcome));
            }
            let Some(ongoing) = &mut self.ongoing else { return CallTaskStep::Ended(FinalAnswer::Nothing) };
            tokio::select! {
                biased;
                Some(event) = ongoing.events.recv() => match event {
                    LinkEvent::Progress(params) => {
                        let message = params.member("message");
                        if let Some(text) = message.as_ref().and_then(RawJson::string) {
                            return CallTaskStep::Described(text.into_owned());
                        }
                    }
                    event => self.handle(event),
                },
                outcome = &mut ongoing.work => {
                    self.ongoing = None;
                    self.outcome = Some(outcome);
                }
                () = one_closed(&mut self.questions) => {
                    self.questions.retain(|(_, question)| !question.reply.is_closed());
                    return CallTaskStep::Asked;
                }
                () = reached(self.questions_until) => {
                    self.questions_until = None;
                    return CallTaskStep::Asked;
                }
            }
            // A task has no stream for messages.
            self.messages.clear();
        }
    }

    /// Delivers the client's answers. Answers to unknown questions are ignored.
    fn take_answers(&mut self, responses: &RawJson) {
        for (key, question) in std::mem::take(&mut self.questions) {
            match responses.member(&key) {
                Some(answer) => {
                    let refusal = answer.member(tasks::REFUSAL).as_ref().and_then(RpcError::from_raw);
                    let _ = question.reply.send(refusal.map_or_else(|| Ok(answer.detached()), Err));
                }
                None => self.questions.push((key, question)),
            }
        }
    }
}

/// Waits until the asker of one of these questions no longer needs an answer.
async fn one_closed(questions: &mut [(String, ClientQuestion)]) {
    poll_fn(|cx| {
        let mut is_closed =
            |(_, question): &mut (String, ClientQuestion)| question.reply.poll_closed(cx).is_ready();
        if questions.iter_mut().any(&mut is_closed) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The error for a call whose client asked for a task that could not be created.
fn no_task() -> RpcError {
    let why =
        "the call was not made: too many tasks of this user are running, or the task could not be stored";
    let hint = "wait until other tasks have ended, or make the call without `task`";
    let data = serde_json::json!({"toolbooth": {"code": "call.no-task", "hint": hint}});
    RpcError::new(INTERNAL_ERROR, why).with_data(RawJson::from_value(&data))
}

/// How a task ends with the answer of its call.
fn end_of(answer: FinalAnswer) -> CallTaskEnd {
    match answer {
        FinalAnswer::Result(result) => CallTaskEnd::Completed(result),
        FinalAnswer::Long(chunks) => CallTaskEnd::Completed(RawJson::trusted(chunks.concat())),
        FinalAnswer::Error(error) => CallTaskEnd::Failed(error),
        FinalAnswer::Nothing => CallTaskEnd::Cancelled,
    }
}
