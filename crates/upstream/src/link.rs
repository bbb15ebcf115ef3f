//! The link between a call under way and its client: progress, log messages and questions.

use crate::http::Credential;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolbooth_core::elicitation::{FormFault, screened, unambiguous};
use toolbooth_core::json::RawJson;
use toolbooth_core::result::{Artifact, echo, update};
use toolbooth_core::secret::KnownSecrets;
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, REFUSED};
use toolbooth_wire::meta::of_a_server;

/// How long a person may take to answer a question before the server's time runs on.
pub const MAX_QUESTION: Duration = Duration::from_secs(600);
/// How long the questions of one call may take in all. A call whose server asks on after that fails.
pub const MAX_TIME_ASKED: Duration = Duration::from_secs(3600);
/// How many questions one call may lead to; likewise.
pub const MAX_QUESTIONS: u32 = 100;
/// How many events wait for a slow client before progress is dropped.
const BACKLOG: usize = 64;
/// How much is set aside of the files that come with updates.
const MAX_UPDATE_FILES: usize = 64;
const MAX_UPDATE_BYTES: u64 = 64 << 20;

/// Something a server said or asked during a call.
#[derive(Debug)]
pub enum LinkEvent {
    /// Progress: the parameters of the notification, under the server's token.
    Progress(RawJson),
    /// A log message: the parameters of the notification.
    Log(RawJson),
    /// A question to the client.
    Question(Question),
    /// The server has taken a subscription on.
    Acknowledged,
    /// What a user was sent to an address for is done: the parameters of the notification.
    Elicited(RawJson),
}

/// A question that has been put.
pub struct Asked {
    answer: Pending,
    /// A question that is refused takes none of the client's time.
    _open: Option<OpenQuestion>,
}

/// Where the answer to a question comes from.
enum Pending {
    Client(oneshot::Receiver<Result<RawJson, RpcError>>),
    Understudy(BoxFuture<'static, Result<RawJson, RpcError>>),
    Refused(RpcError),
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

/// Answers some questions in the client's stead.
pub trait Understudy: std::fmt::Debug + Send + Sync {
    /// Whether it answers questions of this method.
    fn answers(&self, method: &str) -> bool;
    /// Answers one.
    fn answer(self: Arc<Self>, params: Option<RawJson>) -> BoxFuture<'static, Result<RawJson, RpcError>>;
}

impl Asked {
    fn refused(error: RpcError) -> Self {
        Self { answer: Pending::Refused(error), _open: None }
    }

    /// Waits for the answer.
    pub async fn answer(self) -> Result<RawJson, RpcError> {
        let gone = |_| Err(RpcError::new(INTERNAL_ERROR, "the client went away"));
        match self.answer {
            Pending::Client(answer) => answer.await.unwrap_or_else(gone),
            Pending::Understudy(answer) => answer.await,
            Pending::Refused(error) => Err(error),
        }
    }
}

/// A question from a server (or the gateway itself) to the client.
#[derive(Debug)]
pub struct Question {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// Its parameters.
    pub params: Option<RawJson>,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<RawJson, RpcError>>,
}

/// The server's side of the link. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallLink {
    shared: Arc<Shared>,
    understudy: Option<Arc<dyn Understudy>>,
    /// What the server must not repeat.
    secrets: KnownSecrets,
    /// Whose tokens it must not repeat either. They may change during the call.
    credential: Credential,
}

/// The client's side of the link.
#[derive(Debug)]
pub struct LinkEvents {
    shared: Arc<Shared>,
}

/// What both sides share. Most calls never say anything, so nothing is allocated before they do.
#[derive(Debug, Default)]
struct Shared {
    events: Mutex<VecDeque<LinkEvent>>,
    waker: AtomicWaker,
    nobody_listens: AtomicBool,
    signs: Signs,
    /// Whether updates in progress messages are read.
    reads_updates: AtomicBool,
    /// Files that came with updates.
    artifacts: Mutex<Vec<Artifact>>,
}

impl Shared {
    fn events(&self) -> MutexGuard<'_, VecDeque<LinkEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clock(&self) -> MutexGuard<'_, QuestionClock> {
        self.signs.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an event, unless nobody listens or too many wait.
    fn send(&self, event: LinkEvent) -> Result<(), LinkEvent> {
        if self.nobody_listens.load(Ordering::Acquire) {
            return Err(event);
        }
        {
            let mut events = self.events();
            if events.len() >= BACKLOG {
                return Err(event);
            }
            events.push_back(event);
        }
        self.waker.wake();
        Ok(())
    }
}

impl LinkEvents {
    /// The next event. Waits for ever if none comes; dropping the future loses nothing.
    pub async fn recv(&mut self) -> Option<LinkEvent> {
        poll_fn(|cx| {
            // Registered first, so that an event queued in between wakes us.
            self.shared.waker.register(cx.waker());
            match self.shared.events().pop_front() {
                Some(event) => Poll::Ready(Some(event)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// The next event, if one waits.
    pub fn try_recv(&mut self) -> Option<LinkEvent> {
        self.shared.events().pop_front()
    }
}

impl Drop for LinkEvents {
    fn drop(&mut self) {
        self.shared.nobody_listens.store(true, Ordering::Release);
        // Questions that wait are answered by being dropped.
        self.shared.events().clear();
    }
}

/// Signs of life that put a deadline off.
#[derive(Debug, Default)]
struct Signs {
    progress: AtomicU32,
    questions: Mutex<QuestionClock>,
    /// Whether the server asked more than it may, and who waits for that.
    asked_too_much: AtomicBool,
    limit_waker: AtomicWaker,
}

/// How long the client has been asked, however many questions at a time. Questions are rare, so a lock will do.
#[derive(Debug, Default)]
struct QuestionClock {
    /// How many questions there have been.
    asked: u32,
    open: u32,
    /// Since when at least one has been open.
    since: Option<Instant>,
    /// How long it was before that.
    before: Duration,
}

impl QuestionClock {
    fn total(&self) -> Duration {
        // Questions that are open for too long, alone or together, do not keep the server's clock from going on.
        let now = self.since.map_or(Duration::ZERO, |since| since.elapsed().min(MAX_QUESTION));
        (self.before + now).min(MAX_TIME_ASKED)
    }

    /// Whether another question may be put. A server that asks one after another would hold its call for ever.
    fn has_room(&self) -> bool {
        self.asked < MAX_QUESTIONS && self.total() < MAX_TIME_ASKED
    }
}

/// Counts a question as open for as long as it lives.
#[derive(Debug)]
struct OpenQuestion(Arc<Shared>);

impl OpenQuestion {
    /// Counts one more; `None` if that is one too many.
    fn new(shared: Arc<Shared>) -> Option<Self> {
        {
            let mut clock = shared.clock();
            if !clock.has_room() {
                return None;
            }
            clock.asked += 1;
            clock.open += 1;
            clock.since.get_or_insert_with(Instant::now);
        }
        Some(Self(shared))
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut clock = self.0.clock();
        clock.open -= 1;
        if clock.open == 0 {
            clock.before = clock.total();
            clock.since = None;
        }
    }
}

impl CallLink {
    /// A link, and the client's side of it.
    pub fn new() -> (Self, LinkEvents) {
        let shared = Arc::<Shared>::default();
        let (secrets, credential) = (KnownSecrets::default(), Credential::None);
        (Self { shared: shared.clone(), understudy: None, secrets, credential }, LinkEvents { shared })
    }

    /// The same link, with somebody who answers some questions in the client's stead.
    pub fn helped_by(&self, understudy: Arc<dyn Understudy>) -> Self {
        Self { understudy: Some(understudy), ..self.clone() }
    }

    /// The same link for a server whose secrets are masked in all it says, the tokens obtained for it included.
    pub(crate) fn masked_by(&self, secrets: &KnownSecrets, credential: &Credential) -> Self {
        Self { secrets: secrets.clone(), credential: credential.clone(), ..self.clone() }
    }

    /// What a server says, without its secrets.
    fn masked(&self, params: RawJson) -> RawJson {
        let mut params = self.secrets.mask_json(&params).unwrap_or(params);
        if self.credential.can_ask() {
            for tokens in self.credential.secrets() {
                params = tokens.mask_json(&params).unwrap_or(params);
            }
        }
        params
    }

    /// The same, also without file tokens that it sends back.
    fn clean(&self, params: RawJson) -> RawJson {
        let params = self.masked(params);
        echo::redacted(&params).unwrap_or(params)
    }

    /// How much progress there has been.
    pub fn progress_seen(&self) -> u32 {
        self.shared.signs.progress.load(Ordering::Relaxed)
    }

    /// Whether the client has been asked something and has not answered yet.
    pub fn waits_for_client(&self) -> bool {
        self.shared.clock().open > 0
    }

    /// How long the client has been asked in all: that time is not the server's. One question counts for
    /// [`MAX_QUESTION`] at most.
    pub fn time_with_client(&self) -> Duration {
        self.shared.clock().total()
    }

    /// Waits until the server has asked more than it may during one call.
    pub(crate) async fn asked_too_much(&self) {
        poll_fn(|cx| {
            let signs = &self.shared.signs;
            // Registered first, as in `LinkEvents::recv`.
            signs.limit_waker.register(cx.waker());
            match signs.asked_too_much.load(Ordering::Acquire) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Whether the server has asked more than it may: its call has failed.
    pub fn has_asked_too_much(&self) -> bool {
        self.shared.signs.asked_too_much.load(Ordering::Acquire)
    }

    /// Refuses a question that is one too many, and ends the request that it belongs to.
    fn one_too_many(&self) -> Asked {
        self.shared.signs.asked_too_much.store(true, Ordering::Release);
        self.shared.signs.limit_waker.wake();
        Asked::refused(RpcError::new(REFUSED, "refused: there were too many questions during one call"))
    }

    /// A link nobody listens to: for the gateway's own requests.
    pub fn silent() -> Self {
        Self::new().0
    }

    /// Passes progress on. A client that does not keep up loses progress, never the result.
    pub fn progress(&self, params: RawJson) {
        self.shared.signs.progress.fetch_add(1, Ordering::Relaxed);
        let params = self.updated(of_a_server(params));
        let _ = self.shared.send(LinkEvent::Progress(self.clean(params)));
    }

    /// From now on updates in progress messages are read, and the files in them set aside.
    pub fn read_updates(&self) {
        self.shared.reads_updates.store(true, Ordering::Relaxed);
    }

    /// The files that came with updates so far.
    pub fn take_artifacts(&self) -> Vec<Artifact> {
        // Almost no call has any: no lock for those.
        if self.progress_seen() == 0 {
            return Vec::new();
        }
        std::mem::take(&mut *self.shared.artifacts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn updated(&self, params: RawJson) -> RawJson {
        if !self.shared.reads_updates.load(Ordering::Relaxed) {
            return params;
        }
        let Some(update) = update::read(&params) else { return params };
        let mut artifacts = self.shared.artifacts.lock().unwrap_or_else(PoisonError::into_inner);
        let held: u64 = artifacts.iter().map(|artifact| artifact.content.size()).sum();
        let mut room = MAX_UPDATE_BYTES.saturating_sub(held);
        for artifact in update.artifacts {
            if artifacts.len() < MAX_UPDATE_FILES && artifact.content.size() <= room {
                room -= artifact.content.size();
                artifacts.push(artifact);
            }
        }
        update.params
    }

    /// Passes a log message on, likewise.
    pub fn log(&self, params: RawJson) {
        let _ = self.shared.send(LinkEvent::Log(self.clean(of_a_server(params))));
    }

    /// Puts a question to the client at once, so that questions keep their order; the answer is awaited later.
    pub fn question(&self, method: &str, params: Option<RawJson>) -> Asked {
        let Some(open) = OpenQuestion::new(self.shared.clone()) else { return self.one_too_many() };
        let params = params.map(|params| self.masked(params));
        if let Some(understudy) = self.understudy.as_ref().filter(|one| one.answers(method)) {
            let answer = Pending::Understudy(understudy.clone().answer(params));
            return Asked { answer, _open: Some(open) };
        }
        let (reply, answer) = oneshot::channel();
        let question = Question { method: method.to_owned(), params, reply };
        match self.shared.send(LinkEvent::Question(question)) {
            Ok(()) => Asked { answer: Pending::Client(answer), _open: Some(open) },
            Err(_) => {
                Asked::refused(RpcError::new(METHOD_NOT_FOUND, format!("nobody is there to answer {method}")))
            }
        }
    }

    /// The same for a question that a server wrote: nothing in it passes for the gateway's own, it says whose it is, and
    /// a form that asks for a secret is refused.
    pub fn question_of(&self, server: &str, method: &str, params: Option<RawJson>) -> Asked {
        match asked_by(server, method, params) {
            Ok(params) => self.question(method, params),
            Err(fault) => {
                tracing::warn!(server.name = server, "a question of server `{server}` was refused: {fault}");
                if OpenQuestion::new(self.shared.clone()).is_none() {
                    return self.one_too_many();
                }
                Asked::refused(RpcError::new(INVALID_PARAMS, format!("refused: {fault}")))
            }
        }
    }

    /// Passes on that what a user was sent to an address for is done; whoever asked knows by the id whether it was theirs.
    pub fn elicited(&self, params: RawJson) {
        let _ = self.shared.send(LinkEvent::Elicited(self.clean(of_a_server(params))));
    }

    /// Notes that the server has taken a subscription on.
    pub fn acknowledge(&self) {
        let _ = self.shared.send(LinkEvent::Acknowledged);
    }

    /// Asks the client and waits for the answer.
    pub async fn ask(&self, method: &str, params: Option<RawJson>) -> Result<RawJson, RpcError> {
        self.question(method, params).answer().await
    }
}

/// The parameters of a server's question, as they may be put.
fn asked_by(server: &str, method: &str, params: Option<RawJson>) -> Result<Option<RawJson>, FormFault> {
    if let Some(params) = &params {
        unambiguous(params)?;
    }
    let params = params.map(of_a_server);
    if method != "elicitation/create" {
        return Ok(params);
    }
    screened(server, params.unwrap_or_else(RawJson::empty_object)).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T44: a form that asks for a password was passed on, without the server's name.
    #[tokio::test]
    async fn a_servers_question_names_it_and_asks_for_no_secret() {
        let (link, mut events) = CallLink::new();
        let form = |field: &str| {
            let text = format!(
                r#"{{"message":"Well?","requestedSchema":{{"properties":{{"{field}":{{"type":"string"}}}}}}}}"#
            );
            Some(RawJson::trusted(text))
        };
        let refused = link.question_of("bank", "elicitation/create", form("password")).answer().await;
        assert_eq!(refused.map_err(|error| error.code), Err(INVALID_PARAMS));
        assert!(events.try_recv().is_none(), "nobody is asked");
        let asked = link.question_of("bank", "elicitation/create", form("city"));
        let Some(LinkEvent::Question(question)) = events.try_recv() else { panic!("a question") };
        let message = question.params.and_then(|params| params.member("message"));
        assert_eq!(message.expect("text").as_str(), r#""Server `bank` asks: Well?""#);
        drop(asked);
    }

    // Audit: of two equal keys the form that was judged need not be the one that is shown.
    #[tokio::test]
    async fn a_question_with_a_key_twice_is_refused() {
        let (link, mut events) = CallLink::new();
        let harmless = r#""requestedSchema":{"properties":{"city":{"type":"string"}}}"#;
        let text = format!(r#"{{"message":"Well?","requestedSchema":{{}},{harmless}}}"#);
        for method in ["elicitation/create", "sampling/createMessage"] {
            let params = Some(RawJson::trusted(text.clone()));
            let refused = link.question_of("bank", method, params).answer().await;
            assert_eq!(refused.map_err(|error| error.code), Err(INVALID_PARAMS), "{method}");
        }
        assert!(events.try_recv().is_none(), "nobody is asked");
    }

    // Audit: a server that asked one question after another held its call for ever.
    #[tokio::test(start_paused = true)]
    async fn questions_of_one_call_are_bounded_in_time() {
        let (link, _events) = CallLink::new();
        for _ in 0..6 {
            let asked = link.question("elicitation/create", None);
            tokio::time::sleep(MAX_QUESTION * 2).await;
            assert!(!link.has_asked_too_much());
            drop(asked);
        }
        assert_eq!(link.time_with_client(), MAX_TIME_ASKED);
        let refused = link.question("elicitation/create", None).answer().await;
        assert_eq!(refused.map_err(|error| error.code), Err(REFUSED));
        assert!(!link.waits_for_client(), "the server's clock goes on");
        link.asked_too_much().await;
    }

    #[tokio::test]
    async fn questions_of_one_call_are_bounded_in_number() {
        let (link, mut events) = CallLink::new();
        for number in 0..MAX_QUESTIONS {
            let asked = link.question("sampling/createMessage", None);
            assert!(matches!(events.try_recv(), Some(LinkEvent::Question(_))), "{number}");
            drop(asked);
        }
        let waiting = link.clone();
        let limit = tokio::spawn(async move { waiting.asked_too_much().await });
        tokio::task::yield_now().await;
        // One that is refused for another reason counts as well.
        let twice = Some(RawJson::trusted(r#"{"a":1,"a":2}"#));
        let refused = link.question_of("bank", "sampling/createMessage", twice).answer().await;
        assert_eq!(refused.map_err(|error| error.code), Err(REFUSED));
        assert!(events.try_recv().is_none(), "nobody is asked");
        limit.await.expect("whoever waits is woken");
    }
}
