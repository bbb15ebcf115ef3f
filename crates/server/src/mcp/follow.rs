//! Following a request that is under way: what its server says goes to the client in its era.

use super::Door;
use super::cancel::Cancel;
use super::client::Client;
use super::translate::{self, Told};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{Edit, ObjectWriter, RawJson, edit_object, with_members};
use toolbooth_engine::parked::{Ongoing, Parked};
use toolbooth_engine::state::{Binding, Meaning};
use toolbooth_engine::{Answer, ResultFacts};
use toolbooth_upstream::connection::LOG_LEVELS;
use toolbooth_upstream::{LinkEvent, Question};
use toolbooth_wire::codes::{INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError};
use toolbooth_wire::envelope::{write_notification, write_request};
use toolbooth_wire::meta::INPUT_KEY;
use toolbooth_wire::{Era, Id, Revision};
use uuid::Uuid;

/// How long further questions are awaited, so that a modern client gets them together.
const GATHER: Duration = Duration::from_millis(25);

/// Tells a legacy client that a visit to an address is over.
const VISIT_OVER: &str = "notifications/elicitation/complete";

/// What comes next.
#[derive(Debug)]
pub enum Step {
    /// A message that precedes the answer.
    Message(Bytes),
    /// The answer.
    Done(Final),
}

/// How a request ended.
#[derive(Debug)]
pub enum Final {
    /// With a result.
    Result(RawJson),
    /// With a long result, as the pieces of its text.
    Long(Vec<Bytes>),
    /// With an error.
    Error(RpcError),
    /// The client cancelled it: no answer.
    Nothing,
}

/// A request that is under way.
#[derive(Debug)]
pub struct Following {
    door: Arc<Door>,
    client: Client,
    /// The id of the client's request.
    pub id: Id,
    /// Its method.
    pub method: &'static str,
    ongoing: Option<Ongoing>,
    binding: Option<Binding>,
    progress_token: Option<RawJson>,
    cancelled: Option<Cancel>,
    messages: VecDeque<Bytes>,
    questions: Vec<(String, Question)>,
    /// What a legacy client was asked in this request.
    asked: Vec<u64>,
    /// The addresses to which a legacy client's user was sent.
    visits: Vec<Visit>,
    gathering_until: Option<Instant>,
    outcome: Option<Result<Answer, Problem>>,
    /// Answers the client sent along before it was asked.
    given: Option<RawJson>,
}

/// An address to which a user was sent.
#[derive(Debug)]
struct Visit {
    id: String,
    end: VisitEnd,
}

/// Who tells that a visit is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VisitEnd {
    /// The server, by the id that it gave.
    Server,
    /// The gateway, when the call has succeeded: a modern server gives no id and tells nothing.
    Gateway,
}

enum Woke {
    Cancelled,
    Event(LinkEvent),
    Outcome(Result<Answer, Problem>),
    Gathered,
}

impl Following {
    /// Follows a request.
    pub fn new(door: Arc<Door>, client: Client, id: Id, method: &'static str, ongoing: Ongoing) -> Box<Self> {
        let cancelled = client.session.as_ref().map(|session| session.begin(&id));
        Box::new(Self {
            door,
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
            gathering_until: None,
            outcome: None,
            given: None,
        })
    }

    /// What a state handed to the client is bound to.
    pub fn bound(mut self: Box<Self>, binding: Option<Binding>) -> Box<Self> {
        self.binding = binding;
        self
    }

    /// Answers that came along before anything was asked.
    pub fn given(mut self: Box<Self>, answers: Option<RawJson>) -> Box<Self> {
        self.given = answers;
        self
    }

    /// Where progress is reported.
    pub fn reporting(mut self: Box<Self>, token: Option<RawJson>) -> Box<Self> {
        self.progress_token = token;
        self
    }

    /// Questions that the client has left open.
    pub fn asking(mut self: Box<Self>, questions: Vec<(String, Question)>) -> Box<Self> {
        if !questions.is_empty() {
            self.gathering_until = Some(Instant::now());
        }
        self.questions = questions;
        self
    }

    /// Makes the request cancellable from outside; for clients without a session.
    pub fn cancellable(mut self: Box<Self>, cancel: Cancel) -> Box<Self> {
        self.cancelled = Some(cancel);
        self
    }

    /// What comes next. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Step {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Step::Message(message);
            }
            if let Some(outcome) = self.outcome.take() {
                return Step::Done(self.finish(outcome));
            }
            let Some(ongoing) = &mut self.ongoing else { return Step::Done(Final::Nothing) };
            let woke = tokio::select! {
                biased;
                () = fired(self.cancelled.as_ref()) => Woke::Cancelled,
                Some(event) = ongoing.events.recv() => Woke::Event(event),
                outcome = &mut ongoing.work => Woke::Outcome(outcome),
                () = reached(self.gathering_until) => Woke::Gathered,
            };
            match woke {
                Woke::Cancelled => {
                    self.ongoing = None; // Dropping the work cancels it, down to the server.
                    return Step::Done(Final::Nothing);
                }
                Woke::Event(event) => self.heard(event),
                Woke::Outcome(outcome) => {
                    if let Some(mut ongoing) = self.ongoing.take() {
                        while let Some(event) = ongoing.events.try_recv() {
                            self.heard(event);
                        }
                    }
                    if !self.visits.is_empty() {
                        self.end_visits(&outcome);
                    }
                    self.outcome = Some(outcome);
                }
                Woke::Gathered => return Step::Done(self.park()),
            }
        }
    }

    fn heard(&mut self, event: LinkEvent) {
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
            LinkEvent::Question(question) => self.asked(question),
            LinkEvent::Elicited(params) => {
                let id = params.member("elicitationId");
                let id = id.as_ref().and_then(RawJson::string);
                let visit =
                    |visit: &Visit| visit.end == VisitEnd::Server && Some(&*visit.id) == id.as_deref();
                if self.visits.iter().any(visit) {
                    self.messages.push_back(write_notification(VISIT_OVER, Some(&params)));
                }
            }
            LinkEvent::Acknowledged => {}
        }
    }

    /// Tells that visits are over where nobody else does.
    fn end_visits(&mut self, outcome: &Result<Answer, Problem>) {
        if !matches!(outcome, Ok(Answer::Result { .. } | Answer::Long { .. })) {
            return;
        }
        for visit in self.visits.iter().filter(|visit| visit.end == VisitEnd::Gateway) {
            let mut params = ObjectWriter::default();
            params.text("elicitationId", &visit.id);
            self.messages.push_back(write_notification(VISIT_OVER, Some(&params.finish())));
        }
    }

    /// Modern clients say per request what they want to hear; legacy ones hear all until they say.
    fn wants_log(&self, params: &RawJson) -> bool {
        let Some(wanted) = self.client.facts.log_level.as_deref() else {
            return self.client.era() == Era::Legacy;
        };
        let level = params.member("level");
        let level = level.as_ref().and_then(RawJson::string).unwrap_or_default();
        let rank = |name: &str| LOG_LEVELS.iter().position(|known| *known == name);
        rank(&level).unwrap_or(0) >= rank(wanted).unwrap_or(0)
    }

    fn asked(&mut self, question: Question) {
        let facts = &self.client.facts;
        let is_visit = is_visit(&question);
        let can = facts.can_answer(&question.method, question.params.as_ref())
            && (!is_visit || self.client.revision >= Revision::V2025_11_25);
        if !can {
            let how = if is_visit { " in url mode" } else { "" };
            let refusal =
                RpcError::new(METHOD_NOT_FOUND, format!("the client cannot do {}{how}", question.method));
            let _ = question.reply.send(Err(refusal));
            return;
        }
        match (self.client.session.clone(), self.client.era()) {
            (Some(session), Era::Legacy) => {
                let Question { method, mut params, reply } = question;
                if is_visit {
                    params = params.map(|params| self.noted_visit(params));
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
                // A client that came with the answer is not asked.
                if let Some(answer) = self.given.as_ref().and_then(|given| given.member(&key)) {
                    let _ = question.reply.send(Ok(answer));
                    return;
                }
                self.questions.push((key, question));
                self.gathering_until.get_or_insert_with(|| Instant::now() + GATHER);
            }
        }
    }

    /// Notes where a legacy client's user is sent; where the server gives no id for it, the gateway does.
    fn noted_visit(&mut self, params: RawJson) -> RawJson {
        let given = params.member("elicitationId");
        if let Some(id) = given.as_ref().and_then(RawJson::string) {
            self.visits.push(Visit { id: id.into_owned(), end: VisitEnd::Server });
            return params;
        }
        let id = Uuid::new_v4().to_string();
        let named = with_members(&params, &[("elicitationId", RawJson::from_value(&id))]);
        self.visits.push(Visit { id, end: VisitEnd::Gateway });
        named.unwrap_or(params)
    }

    /// The key a question goes by: the server's own word for it where it gives one.
    fn key_of(&self, question: &Question) -> String {
        let named = question.params.as_ref().and_then(|params| params.at(&["_meta", INPUT_KEY]));
        let named = named.as_ref().and_then(RawJson::string).map(|key| key.into_owned());
        let taken = |key: &str| self.questions.iter().any(|(other, _)| other == key);
        let mut numbered = (1..).map(|number| format!("question-{number}"));
        named.filter(|key| !taken(key)).or_else(|| numbered.find(|key| !taken(key))).unwrap_or_default()
    }

    /// Parks the call and tells the client what its server wants to know.
    fn park(&mut self) -> Final {
        let internal = |why: &str| Final::Error(RpcError::new(INTERNAL_ERROR, why));
        let (Some(ongoing), Some(binding)) = (self.ongoing.take(), &self.binding) else {
            return internal("a question came where none can be asked");
        };
        let questions = std::mem::take(&mut self.questions);
        let mut requests = ObjectWriter::default();
        for (key, question) in &questions {
            let mut request = ObjectWriter::default();
            request.text("method", &question.method);
            request.raw("params", &question.params.clone().unwrap_or_else(RawJson::empty_object));
            requests.raw(key, &request.finish());
        }
        let engine = &self.door.engine;
        let Some(handle) = engine.parking().park(&self.client.caller.user, Parked { ongoing, questions })
        else {
            return internal("too many calls wait for their clients");
        };
        match engine.states().seal(Meaning::Parked(handle), binding) {
            Some(state) => Final::Result(input_required(Some(&requests.finish()), &state)),
            None => internal("no randomness"),
        }
    }

    fn finish(&mut self, outcome: Result<Answer, Problem>) -> Final {
        match outcome {
            Ok(Answer::Result { result, era, facts, warnings }) => {
                let result = translate::result(&result, era, facts, &self.client, self.method);
                Final::Result(translate::warned(result, &warnings))
            }
            Ok(Answer::Long { long, era, facts }) => {
                match translate::long(&long, era, &self.client, self.method) {
                    Some(pieces) => Final::Long(pieces),
                    None => {
                        let result = translate::result(&long.whole(), era, facts, &self.client, self.method);
                        Final::Result(result)
                    }
                }
            }
            Ok(Answer::Held { id, text, kind }) => {
                let result = translate::held(id, &text, kind);
                Final::Result(translate::result(
                    &result,
                    Era::Legacy,
                    ResultFacts { has_extras: true, ..ResultFacts::default() },
                    &self.client,
                    self.method,
                ))
            }
            Ok(Answer::Error(error)) => Final::Error(translate::error(error, &self.client)),
            Ok(Answer::InputRequired { requests, state, .. }) => {
                let state = state.map(|state| state.to_string());
                let sealed = self
                    .binding
                    .as_ref()
                    .and_then(|bound| self.door.engine.states().seal(Meaning::Upstream { state }, bound));
                match sealed {
                    Some(sealed) => Final::Result(input_required(requests.as_ref(), &sealed)),
                    None => {
                        Final::Error(RpcError::new(INTERNAL_ERROR, "a question came where none can be asked"))
                    }
                }
            }
            Err(problem) => match translate::problem(&problem, self.method) {
                Told::Error(error) => Final::Error(translate::error(error, &self.client)),
                Told::Result(result) => Final::Result(translate::result(
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

/// Whether a question sends the user to an address.
fn is_visit(question: &Question) -> bool {
    let mode = question.params.as_ref().and_then(|params| params.member("mode"));
    question.method == "elicitation/create"
        && mode.is_some_and(|mode| mode.string().as_deref() == Some("url"))
}

/// The modern era knows no ids of visits: the request that comes back says it.
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

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(session) = &self.client.session {
            session.end(&self.id);
            // Streams are not taken up again: nobody sees these questions any more, and a server that waits
            // for an answer serves nobody else.
            session.withdraw(&self.asked);
        }
        let cancelled = self.cancelled.as_ref().is_some_and(Cancel::is_cancelled);
        // A legacy client that hangs up has not cancelled: its call is finished without it.
        if let Some(Ongoing { work, events }) = self.ongoing.take()
            && self.client.era() == Era::Legacy
            && !cancelled
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                drop(events); // Nobody is there to be asked.
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
