//! A running request: forwards messages and questions of its server to the client, in the client's era.

mod as_task;

use super::FrontEndState;
use super::cancel::Cancel;
use super::client::McpClient;
use super::legacy_tasks;
use super::translate::{self, ProblemAnswer};
use as_task::TaskOffer;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{Edit, ObjectWriter, RawJson, edit_object, with_members};
use toolbooth_engine::parked::{OngoingCall, ParkedCall};
use toolbooth_engine::request_state::{StateBinding, StateTarget};
use toolbooth_engine::{Answer, ResultFacts};
use toolbooth_upstream::connection::LOG_LEVELS;
use toolbooth_upstream::{ClientQuestion, LinkEvent};
use toolbooth_wire::codes::{INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError};
use toolbooth_wire::envelope::{write_notification, write_request};
use toolbooth_wire::meta::INPUT_KEY;
use toolbooth_wire::{Era, Id, Revision};
use uuid::Uuid;

/// How long to wait for further questions, so that a modern client gets them together.
const QUESTION_WINDOW: Duration = Duration::from_millis(25);

/// Notifies a legacy client that its user has finished at a URL.
const URL_COMPLETE: &str = "notifications/elicitation/complete";

/// The next event of a request.
#[derive(Debug)]
pub enum RequestStep {
    /// A message before the answer.
    Message(Bytes),
    /// The answer.
    Done(FinalAnswer),
}

/// The answer to a request.
#[derive(Debug)]
pub enum FinalAnswer {
    /// A result.
    Result(RawJson),
    /// A long result, as chunks of its text.
    Long(Vec<Bytes>),
    /// An error.
    Error(RpcError),
    /// No answer, because the client cancelled the request.
    Nothing,
}

/// A request that is being served.
#[derive(Debug)]
pub struct RunningRequest {
    front_end: Arc<FrontEndState>,
    client: McpClient,
    /// The id of the client's request.
    pub id: Id,
    /// Its method.
    pub method: &'static str,
    ongoing: Option<OngoingCall>,
    binding: Option<StateBinding>,
    progress_token: Option<RawJson>,
    cancelled: Option<Cancel>,
    messages: VecDeque<Bytes>,
    questions: Vec<(String, ClientQuestion)>,
    /// Ids of the questions that a legacy client was asked in this request.
    asked: Vec<u64>,
    /// URLs to which the user of a legacy client was sent.
    visits: Vec<UrlVisit>,
    questions_until: Option<Instant>,
    outcome: Option<Result<Answer, Problem>>,
    /// Answers that the client sent before it was asked.
    given: Option<RawJson>,
    /// Set if the call can become a task.
    offer: Option<Box<TaskOffer>>,
    /// The number of questions so far, if the call is a task: their keys must never repeat.
    task_keys: Option<usize>,
}

/// A URL to which a user was sent.
#[derive(Debug)]
struct UrlVisit {
    id: String,
    end: VisitEnd,
}

/// Who reports that the user has finished at a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VisitEnd {
    /// The server, with the id that it assigned.
    Server,
    /// The gateway, when the call has succeeded: a modern server assigns no id and reports nothing.
    Gateway,
}

/// Why `next` continues.
enum WakeReason {
    Cancelled,
    Event(LinkEvent),
    Outcome(Result<Answer, Problem>),
    QuestionsDue,
    TaskDue,
}

impl RunningRequest {
    /// Starts following a request.
    pub fn new(
        front_end: Arc<FrontEndState>,
        client: McpClient,
        id: Id,
        method: &'static str,
        ongoing: OngoingCall,
    ) -> Box<Self> {
        let cancelled = client.session.as_ref().map(|session| session.begin(&id));
        Box::new(Self {
            front_end,
            client,
            id,
            method,
            ongoing: Some(ongoing),
            binding: None,
            progress_token: None,
            cancelled,
            messages: VecDeque::new(),
            questions: Vec::new(),
            asked: Vec::new(),
            visits: Vec::new(),
            questions_until: None,
            outcome: None,
            given: None,
            offer: None,
            task_keys: None,
        })
    }

    /// Sets the binding of states that are returned to the client.
    pub fn bound(mut self: Box<Self>, binding: Option<StateBinding>) -> Box<Self> {
        self.binding = binding;
        self
    }

    /// Sets answers that the client sent before it was asked.
    pub fn given(mut self: Box<Self>, answers: Option<RawJson>) -> Box<Self> {
        self.given = answers;
        self
    }

    /// Sets the token for progress notifications.
    pub fn reporting(mut self: Box<Self>, token: Option<RawJson>) -> Box<Self> {
        self.progress_token = token;
        self
    }

    /// Sets questions that the client has not answered yet.
    pub fn asking(mut self: Box<Self>, questions: Vec<(String, ClientQuestion)>) -> Box<Self> {
        if !questions.is_empty() {
            self.questions_until = Some(Instant::now());
        }
        self.questions = questions;
        self
    }

    /// Sets the cancellation signal of a request without a session.
    pub fn cancellable(mut self: Box<Self>, cancel: Cancel) -> Box<Self> {
        self.cancelled = Some(cancel);
        self
    }

    /// The next event. Cancel-safe.
    pub async fn next(&mut self) -> RequestStep {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return RequestStep::Message(message);
            }
            if let Some(answer) = self.answer_with_task().await {
                return RequestStep::Done(answer);
            }
            if let Some(outcome) = self.outcome.take() {
                return RequestStep::Done(self.finish(outcome));
            }
            let task_due = self.offer.as_ref().map(|offer| offer.due);
            let Some(ongoing) = &mut self.ongoing else { return RequestStep::Done(FinalAnswer::Nothing) };
            let reason = tokio::select! {
                biased;
                () = fired(self.cancelled.as_ref()) => WakeReason::Cancelled,
                Some(event) = ongoing.events.recv() => WakeReason::Event(event),
                outcome = &mut ongoing.work => WakeReason::Outcome(outcome),
                () = reached(self.questions_until) => WakeReason::QuestionsDue,
                () = reached(task_due) => WakeReason::TaskDue,
            };
            match reason {
                WakeReason::Cancelled => {
                    self.ongoing = None; // Dropping the work cancels it, down to the server.
                    return RequestStep::Done(FinalAnswer::Nothing);
                }
                WakeReason::Event(event) => self.handle(event),
                WakeReason::Outcome(outcome) => {
                    if let Some(mut ongoing) = self.ongoing.take() {
                        while let Some(event) = ongoing.events.try_recv() {
                            self.handle(event);
                        }
                    }
                    if !self.visits.is_empty() {
                        self.end_visits(&outcome);
                    }
                    self.outcome = Some(outcome);
                }
                WakeReason::QuestionsDue => return RequestStep::Done(self.park()),
                WakeReason::TaskDue => self.begin_task(),
            }
        }
    }

    fn handle(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Progress(params) => {
                if let Some(token) = &self.progress_token
                    && let Ok(params) = with_members(&params, &[("progressToken", token.clone())])
                {
                    self.messages.push_back(write_notification("notifications/progress", Some(&params)));
                }
            }
            LinkEvent::Log(params) => {
                if self.wants_log(&params) {
                    self.messages.push_back(write_notification("notifications/message", Some(&params)));
                }
            }
            LinkEvent::Question(question) => self.ask(question),
            LinkEvent::Elicited(params) => {
                let id = params.member("elicitationId");
                let id = id.as_ref().and_then(RawJson::string);
                let visit =
                    |visit: &UrlVisit| visit.end == VisitEnd::Server && Some(&*visit.id) == id.as_deref();
                if self.visits.iter().any(visit) {
                    self.messages.push_back(write_notification(URL_COMPLETE, Some(&params)));
                }
            }
            LinkEvent::TaskStarted => self.begin_task(),
            LinkEvent::Acknowledged => {}
        }
    }

    /// Reports the end of visits that no server reports.
    fn end_visits(&mut self, outcome: &Result<Answer, Problem>) {
        if !matches!(outcome, Ok(Answer::Result { .. } | Answer::Long { .. })) {
            return;
        }
        for visit in self.visits.iter().filter(|visit| visit.end == VisitEnd::Gateway) {
            let mut params = ObjectWriter::default();
            params.text("elicitationId", &visit.id);
            self.messages.push_back(write_notification(URL_COMPLETE, Some(&params.finish())));
        }
    }

    /// Modern clients state a log level per request; legacy clients get all messages until they set a level.
    fn wants_log(&self, params: &RawJson) -> bool {
        let Some(wanted) = self.client.facts.log_level.as_deref() else {
            return self.client.era() == Era::Legacy;
        };
        let level = params.member("level");
        let level = level.as_ref().and_then(RawJson::string).unwrap_or_default();
        let rank = |name: &str| LOG_LEVELS.iter().position(|known| *known == name);
        rank(&level).unwrap_or(0) >= rank(wanted).unwrap_or(0)
    }

    fn ask(&mut self, question: ClientQuestion) {
        let facts = &self.client.facts;
        let is_visit = is_visit(&question);
        let can = facts.can_answer(&question.method, question.params.as_ref())
            && (!is_visit || self.client.revision >= Revision::V2025_11_25);
        if !can {
            let how = if is_visit { " in url mode" } else { "" };
            let refusal = RpcError::new(
                METHOD_NOT_FOUND,
                format!("the client does not support {}{how}", question.method),
            );
            let _ = question.reply.send(Err(refusal));
            return;
        }
        match (self.client.session.clone(), self.client.era()) {
            (Some(session), Era::Legacy) => {
                let ClientQuestion { server: _, method, mut params, reply } = question;
                if is_visit {
                    params = params.map(|params| self.record_visit(params));
                }
                let id = session.ask(reply);
                self.asked.push(id);
                self.messages.push_back(write_request(id, &method, params.as_ref()));
            }
            _ => {
                let mut question = question;
                if is_visit {
                    question.params = question.params.map(without_visit_id);
                }
                let key = self.key_of(&question);
                // The client sent the answer in advance.
                if let Some(answer) = self.given.as_ref().and_then(|given| given.member(&key)) {
                    let _ = question.reply.send(Ok(answer));
                    return;
                }
                self.questions.push((key, question));
                self.task_keys = self.task_keys.map(|asked| asked + 1);
                self.questions_until.get_or_insert_with(|| Instant::now() + QUESTION_WINDOW);
            }
        }
    }

    /// Records where a legacy client's user is sent. Assigns an id if the server does not.
    fn record_visit(&mut self, params: RawJson) -> RawJson {
        let given = params.member("elicitationId");
        if let Some(id) = given.as_ref().and_then(RawJson::string) {
            self.visits.push(UrlVisit { id: id.into_owned(), end: VisitEnd::Server });
            return params;
        }
        let id = Uuid::new_v4().to_string();
        let named = with_members(&params, &[("elicitationId", RawJson::from_value(&id))]);
        self.visits.push(UrlVisit { id, end: VisitEnd::Gateway });
        named.unwrap_or(params)
    }

    /// The key of a question: the server's own key if it has one.
    fn key_of(&self, question: &ClientQuestion) -> String {
        let named = question.params.as_ref().and_then(|params| params.at(&["_meta", INPUT_KEY]));
        let named = named.as_ref().and_then(RawJson::string).map(|key| key.into_owned());
        let taken = |key: &str| self.questions.iter().any(|(other, _)| other == key);
        let mut numbered =
            (self.task_keys.unwrap_or_default() + 1..).map(|number| format!("question-{number}"));
        named.filter(|key| !taken(key)).or_else(|| numbered.find(|key| !taken(key))).unwrap_or_default()
    }

    /// The open questions by key, if there are any.
    fn open_requests(&self) -> Option<RawJson> {
        let mut requests = ObjectWriter::default();
        for (key, question) in &self.questions {
            let mut request = ObjectWriter::default();
            request.text("method", &question.method);
            request.raw("params", &question.params.clone().unwrap_or_else(RawJson::empty_object));
            requests.raw(key, &request.finish());
        }
        (!self.questions.is_empty()).then(|| requests.finish())
    }

    /// Parks the call and returns the server's questions to the client.
    fn park(&mut self) -> FinalAnswer {
        let internal = |why: &str| FinalAnswer::Error(RpcError::new(INTERNAL_ERROR, why));
        let (Some(ongoing), Some(binding)) = (self.ongoing.take(), &self.binding) else {
            return internal("the client cannot be asked a question here");
        };
        let requests = self.open_requests();
        let questions = std::mem::take(&mut self.questions);
        let task = self.offer.take().map(|offer| offer.into_parts());
        let engine = &self.front_end.engine;
        let approval = engine.is_shared().then(|| approval_in(&questions)).flatten();
        let parked = ParkedCall { ongoing, questions, task };
        let Some(handle) = engine.parking().park(&self.client.caller.user, parked) else {
            return internal("too many calls are waiting for their clients");
        };
        let target = match approval {
            Some((held, key)) => StateTarget::Approval { handle, held, key },
            None if engine.is_shared() => {
                StateTarget::ParkedAt { handle, replica: engine.replica_mail().own_id().to_owned() }
            }
            None => StateTarget::Parked(handle),
        };
        match engine.states().seal(target, binding) {
            Some(state) => FinalAnswer::Result(input_required(requests.as_ref(), &state)),
            None => internal("the system has no randomness for a request state"),
        }
    }

    fn finish(&mut self, outcome: Result<Answer, Problem>) -> FinalAnswer {
        match outcome {
            Ok(Answer::Result { result, era, facts, warnings }) => {
                let result = translate::result(&result, era, facts, &self.client, self.method);
                FinalAnswer::Result(translate::with_warnings(result, &warnings))
            }
            Ok(Answer::Long { long, era, facts }) => {
                match translate::long(&long, era, &self.client, self.method) {
                    Some(pieces) => FinalAnswer::Long(pieces),
                    None => {
                        let result = translate::result(&long.whole(), era, facts, &self.client, self.method);
                        FinalAnswer::Result(result)
                    }
                }
            }
            Ok(Answer::Held { id, text, kind }) => {
                let result = translate::held(id, &text, kind);
                FinalAnswer::Result(translate::result(
                    &result,
                    Era::Legacy,
                    ResultFacts { has_extras: true, ..ResultFacts::default() },
                    &self.client,
                    self.method,
                ))
            }
            Ok(Answer::Error(error)) => FinalAnswer::Error(translate::error(error, &self.client)),
            Ok(Answer::InputRequired { requests, state, .. }) => {
                let state = state.map(|state| state.to_string());
                let sealed = self.binding.as_ref().and_then(|bound| {
                    self.front_end.engine.states().seal(StateTarget::Upstream { state }, bound)
                });
                match sealed {
                    Some(sealed) => FinalAnswer::Result(input_required(requests.as_ref(), &sealed)),
                    None => FinalAnswer::Error(RpcError::new(
                        INTERNAL_ERROR,
                        "the client cannot be asked a question here",
                    )),
                }
            }
            Err(problem) => match translate::problem(&problem, self.method) {
                ProblemAnswer::Error(error) => FinalAnswer::Error(translate::error(error, &self.client)),
                ProblemAnswer::Result(result) => FinalAnswer::Result(translate::result(
                    &result,
                    Era::Legacy,
                    ResultFacts::default(),
                    &self.client,
                    self.method,
                )),
            },
        }
    }
}

/// Whether a question sends the user to a URL.
fn is_visit(question: &ClientQuestion) -> bool {
    let mode = question.params.as_ref().and_then(|params| params.member("mode"));
    question.method == "elicitation/create"
        && mode.is_some_and(|mode| mode.string().as_deref() == Some("url"))
}

/// The held call and the key of the question, if it is the only one and the gateway's own about a held call. Servers cannot
/// set this member of `_meta`: it is removed from their questions.
fn approval_in(questions: &[(String, ClientQuestion)]) -> Option<(Uuid, String)> {
    let [(key, question)] = questions else { return None };
    let held = question.params.as_ref()?.at(&["_meta", "toolbooth/held"])?;
    Some((held.string()?.parse().ok()?, key.clone()))
}

/// Removes the visit id, which the modern era does not have.
fn without_visit_id(params: RawJson) -> RawJson {
    let without = edit_object(&params, |key, _| match key {
        "elicitationId" => Edit::Drop,
        _ => Edit::Keep,
    });
    without.unwrap_or(params)
}

fn input_required(requests: Option<&RawJson>, state: &str) -> RawJson {
    let mut writer = ObjectWriter::default();
    writer.text("resultType", "input_required");
    if let Some(requests) = requests {
        writer.raw("inputRequests", requests);
    }
    writer.text("requestState", state);
    writer.finish()
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        if let Some(session) = &self.client.session {
            session.end(&self.id);
            // Streams cannot be resumed, so the client no longer sees these questions. A server that waits for an
            // answer would block its connection.
            session.withdraw(&self.asked);
        }
        let cancelled = self.cancelled.as_ref().is_some_and(Cancel::is_cancelled);
        // A legacy client that disconnects has not cancelled its call, so the call runs to its end. A task runs without
        // this request, and its client may ask for the result again.
        let is_call = self.method != legacy_tasks::RESULT && self.task_keys.is_none() && !self.awaits_task();
        if let Some(OngoingCall { work, events }) = self.ongoing.take()
            && self.client.era() == Era::Legacy
            && is_call
            && !cancelled
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                drop(events); // The client can no longer be asked.
                let _ = work.await;
            });
        }
    }
}

async fn fired(cancel: Option<&Cancel>) {
    match cancel {
        Some(cancel) => cancel.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A parked call with the client's answers to its questions. Unanswered questions are asked again.
pub(super) fn answered(mut parked: ParkedCall, responses: Option<&RawJson>) -> ParkedCall {
    let questions = std::mem::take(&mut parked.questions);
    for (key, question) in questions {
        match responses.and_then(|responses| responses.member(&key)) {
            Some(answer) => drop(question.reply.send(Ok(answer))),
            None => parked.questions.push((key, question)),
        }
    }
    parked
}
