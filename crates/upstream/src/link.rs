//! The link between a call in flight and its client: progress, log messages and questions.

use crate::credential::ServerCredential;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolbooth_core::elicitation::{ElicitationFault, screened, unambiguous};
use toolbooth_core::json::RawJson;
use toolbooth_core::result::{Artifact, echo, update};
use toolbooth_core::secret::KnownSecrets;
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, REFUSED};
use toolbooth_wire::meta::strip_gateway_meta;

pub use crate::question_limits::{MAX_QUESTION, MAX_QUESTIONS, MAX_TIME_ASKED};

/// Number of queued events at which further progress for a slow client is dropped.
const BACKLOG: usize = 64;
/// Limits on the files kept from progress updates.
const MAX_UPDATE_FILES: usize = 64;
const MAX_UPDATE_BYTES: u64 = 64 << 20;
/// The number of completed URL elicitations that are remembered.
const MAX_COMPLETED_URLS: usize = 16;
/// The longest id of a URL elicitation that is remembered, in bytes.
const MAX_URL_ID: usize = 256;

/// An event that a server sent during a call.
#[derive(Debug)]
pub enum LinkEvent {
    /// A progress notification's parameters, with the server's token.
    Progress(RawJson),
    /// A log notification's parameters.
    Log(RawJson),
    /// A question for the client.
    Question(ClientQuestion),
    /// The server confirmed a subscription.
    Acknowledged,
    /// The parameters of a notification that a URL elicitation is complete.
    Elicited(RawJson),
    /// The server continues the call as a task of its own.
    TaskStarted,
}

/// A question that was asked and is not answered yet.
pub struct PendingQuestion {
    answer: AnswerSource,
    /// Absent for a refused question, which does not count as time with the client.
    _open: Option<OpenQuestion>,
}

/// The source of a question's answer.
enum AnswerSource {
    Client(oneshot::Receiver<Result<RawJson, RpcError>>),
    Fallback(BoxFuture<'static, Result<RawJson, RpcError>>),
    Refused(RpcError),
}

impl std::fmt::Debug for PendingQuestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingQuestion").finish_non_exhaustive()
    }
}

/// Sees the progress of a call, besides its client.
pub trait ProgressObserver: std::fmt::Debug + Send + Sync {
    /// A progress notification's parameters, without secrets and file tokens. Must not block.
    fn progress(&self, params: &RawJson);
}

/// Answers some questions instead of the client.
pub trait FallbackResponder: std::fmt::Debug + Send + Sync {
    /// Whether it answers questions of this method.
    fn answers(&self, method: &str) -> bool;
    /// Answers a question.
    fn answer(self: Arc<Self>, params: Option<RawJson>) -> BoxFuture<'static, Result<RawJson, RpcError>>;
}

impl PendingQuestion {
    fn refused(error: RpcError) -> Self {
        Self { answer: AnswerSource::Refused(error), _open: None }
    }

    /// Waits for the answer.
    pub async fn answer(self) -> Result<RawJson, RpcError> {
        let gone = |_| Err(RpcError::new(INTERNAL_ERROR, "the client went away"));
        match self.answer {
            AnswerSource::Client(answer) => answer.await.unwrap_or_else(gone),
            AnswerSource::Fallback(answer) => answer.await,
            AnswerSource::Refused(error) => Err(error),
        }
    }
}

/// A question from a server, or from the gateway itself, to the client.
#[derive(Debug)]
pub struct ClientQuestion {
    /// The server that asks; `None` for the gateway itself.
    pub server: Option<String>,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The question's parameters.
    pub params: Option<RawJson>,
    /// Receives the answer.
    pub reply: oneshot::Sender<Result<RawJson, RpcError>>,
}

/// The server's side of the link. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallLink {
    shared: Arc<LinkState>,
    fallback: Option<Arc<dyn FallbackResponder>>,
    /// Secrets to mask in everything the server sends.
    secrets: KnownSecrets,
    /// The source of OAuth tokens to mask as well. They may change during the call.
    credential: ServerCredential,
}

/// The client's side of the link.
#[derive(Debug)]
pub struct LinkEvents {
    shared: Arc<LinkState>,
}

/// The state that both sides share. Most calls send no events, so nothing is allocated until they do.
#[derive(Debug, Default)]
struct LinkState {
    events: Mutex<VecDeque<LinkEvent>>,
    waker: AtomicWaker,
    receiver_dropped: AtomicBool,
    signs: DeadlineSignals,
    /// Whether progress messages are searched for updates.
    reads_updates: AtomicBool,
    /// Files that came in updates.
    artifacts: Mutex<Vec<Artifact>>,
    /// Sees every progress notification, besides the client.
    observer: OnceLock<Arc<dyn ProgressObserver>>,
    /// Whether the deadline of the current attempt has passed.
    is_overdue: AtomicBool,
    /// Whether the client follows the call as a task.
    is_followed_as_task: AtomicBool,
    /// Whether a person answers sampling requests.
    person_samples: AtomicBool,
    /// Ids of URL elicitations that the server reported as complete, the latest last.
    completed_urls: Mutex<VecDeque<String>>,
}

/// The URL elicitations of a call that its server reported as complete.
#[derive(Debug, Clone)]
pub struct UrlCompletions(Arc<LinkState>);

impl UrlCompletions {
    /// Whether the server reported that this elicitation is complete.
    pub fn contains(&self, id: &str) -> bool {
        self.0.completed_urls().iter().any(|completed| completed == id)
    }
}

impl LinkState {
    fn events(&self) -> MutexGuard<'_, VecDeque<LinkEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn completed_urls(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.completed_urls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clock(&self) -> MutexGuard<'_, QuestionClock> {
        self.signs.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an event, unless the receiver is gone or the queue is full.
    fn send(&self, event: LinkEvent) -> Result<(), LinkEvent> {
        if self.receiver_dropped.load(Ordering::Acquire) {
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
    /// Returns the next event and waits forever if none comes. Cancel safe.
    pub async fn recv(&mut self) -> Option<LinkEvent> {
        poll_fn(|cx| {
            // Registered before the queue is read, so that an event queued in between wakes this task.
            self.shared.waker.register(cx.waker());
            match self.shared.events().pop_front() {
                Some(event) => Poll::Ready(Some(event)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Notes that the client follows the call as a task from now on.
    pub fn follow_as_task(&self) {
        self.shared.is_followed_as_task.store(true, Ordering::Relaxed);
    }

    /// Notes that a person at the caller can answer sampling requests.
    pub fn let_person_sample(&self) {
        self.shared.person_samples.store(true, Ordering::Relaxed);
    }

    /// Whether a person at the caller can answer sampling requests.
    pub fn person_samples(&self) -> bool {
        self.shared.person_samples.load(Ordering::Relaxed)
    }

    /// The URL elicitations that the server reports as complete, now and later.
    pub fn url_completions(&self) -> UrlCompletions {
        UrlCompletions(self.shared.clone())
    }

    /// Returns the next event, if one is queued.
    pub fn try_recv(&mut self) -> Option<LinkEvent> {
        self.shared.events().pop_front()
    }
}

impl Drop for LinkEvents {
    fn drop(&mut self) {
        self.shared.receiver_dropped.store(true, Ordering::Release);
        // Dropping a queued question answers it with an error.
        self.shared.events().clear();
    }
}

/// Activity that extends the deadline of a call.
#[derive(Debug, Default)]
struct DeadlineSignals {
    progress: AtomicU32,
    questions: Mutex<QuestionClock>,
    /// Whether the server exceeded a question limit, and the task waiting for that.
    asked_too_much: AtomicBool,
    limit_waker: AtomicWaker,
}

/// Measures how long the client has had open questions; overlapping questions count once. Questions are rare,
/// so a lock is sufficient.
#[derive(Debug, Default)]
struct QuestionClock {
    /// Number of questions so far.
    asked: u32,
    open: u32,
    /// Start of the current period with open questions.
    since: Option<Instant>,
    /// Total of the earlier periods.
    before: Duration,
}

impl QuestionClock {
    fn total(&self) -> Duration {
        // An open question pauses the server's deadline for a limited time only.
        let now = self.since.map_or(Duration::ZERO, |since| since.elapsed().min(MAX_QUESTION));
        (self.before + now).min(MAX_TIME_ASKED)
    }

    /// Whether another question is allowed. Without a limit, a server could keep a call open forever.
    fn has_room(&self) -> bool {
        self.asked < MAX_QUESTIONS && self.total() < MAX_TIME_ASKED
    }
}

/// Counts a question as open while it exists.
#[derive(Debug)]
struct OpenQuestion(Arc<LinkState>);

impl OpenQuestion {
    /// Counts a new question; `None` if a limit is reached.
    fn new(shared: Arc<LinkState>) -> Option<Self> {
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
    /// Creates a link and returns both sides.
    pub fn new() -> (Self, LinkEvents) {
        let shared = Arc::<LinkState>::default();
        let (secrets, credential) = (KnownSecrets::default(), ServerCredential::None);
        (Self { shared: shared.clone(), fallback: None, secrets, credential }, LinkEvents { shared })
    }

    /// Returns the link with a responder that answers some questions instead of the client.
    pub fn with_fallback(&self, fallback: Arc<dyn FallbackResponder>) -> Self {
        Self { fallback: Some(fallback), ..self.clone() }
    }

    /// Returns the link for a server whose secrets and OAuth tokens are masked in everything it sends.
    pub(crate) fn masked_by(&self, secrets: &KnownSecrets, credential: &ServerCredential) -> Self {
        Self { secrets: secrets.clone(), credential: credential.clone(), ..self.clone() }
    }

    /// Masks the server's secrets.
    fn masked(&self, params: RawJson) -> RawJson {
        let mut params = self.secrets.mask_json(&params).unwrap_or(params);
        if self.credential.can_renew() {
            for tokens in self.credential.secrets() {
                params = tokens.mask_json(&params).unwrap_or(params);
            }
        }
        params
    }

    /// Masks the server's secrets and file tokens.
    fn clean(&self, params: RawJson) -> RawJson {
        let params = self.masked(params);
        echo::redacted(&params).unwrap_or(params)
    }

    /// Number of progress notifications so far.
    pub fn progress_seen(&self) -> u32 {
        self.shared.signs.progress.load(Ordering::Relaxed)
    }

    /// Whether the client has an open question.
    pub fn waits_for_client(&self) -> bool {
        self.shared.clock().open > 0
    }

    /// Total time with open questions, which does not count against the server's deadline. One question
    /// counts for at most [`MAX_QUESTION`].
    pub fn time_with_client(&self) -> Duration {
        self.shared.clock().total()
    }

    /// Waits until the server exceeds a question limit.
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

    /// Whether the server has exceeded a question limit, so that its call has failed.
    pub fn has_asked_too_much(&self) -> bool {
        self.shared.signs.asked_too_much.load(Ordering::Acquire)
    }

    /// Refuses a question over the limit and ends the request that it belongs to.
    fn over_limit(&self) -> PendingQuestion {
        self.shared.signs.asked_too_much.store(true, Ordering::Release);
        self.shared.signs.limit_waker.wake();
        PendingQuestion::refused(RpcError::new(
            REFUSED,
            "refused: there were too many questions during one call",
        ))
    }

    /// Creates a link without a receiver, for the gateway's own requests.
    pub fn silent() -> Self {
        Self::new().0
    }

    /// Sends a progress notification to the client. A slow client loses progress, never the result.
    pub fn progress(&self, params: RawJson) {
        self.shared.signs.progress.fetch_add(1, Ordering::Relaxed);
        let params = self.clean(self.updated(strip_gateway_meta(params)));
        if let Some(observer) = self.shared.observer.get() {
            observer.progress(&params);
        }
        let _ = self.shared.send(LinkEvent::Progress(params));
    }

    /// Counts activity of the server other than a progress notification. It extends the deadline, too.
    pub fn note_activity(&self) {
        self.shared.signs.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports that the server continues the call as a task of its own.
    pub fn start_task(&self) {
        let _ = self.shared.send(LinkEvent::TaskStarted);
    }

    /// Whether the client follows the call as a task, and therefore answers questions while the call runs.
    pub fn is_followed_as_task(&self) -> bool {
        self.shared.is_followed_as_task.load(Ordering::Relaxed)
    }

    /// Whether a person at the caller can answer sampling requests.
    pub fn person_samples(&self) -> bool {
        self.shared.person_samples.load(Ordering::Relaxed)
    }

    /// Notes that a new attempt begins, with a deadline of its own.
    pub fn begin_attempt(&self) {
        // Almost no attempt is overdue: do not write if nothing changes.
        if self.shared.is_overdue.load(Ordering::Relaxed) {
            self.shared.is_overdue.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that the deadline of the current attempt has passed: its server is given that as the reason of the
    /// cancellation.
    pub fn end_overdue_attempt(&self) {
        self.shared.is_overdue.store(true, Ordering::Relaxed);
    }

    /// The reason that the server of a cancelled request is given.
    pub(crate) fn cancel_reason(&self) -> &'static str {
        match self.shared.is_overdue.load(Ordering::Relaxed) {
            true => "the call timed out",
            false => "the caller went away",
        }
    }

    /// Sets the observer of the call's progress. The first one stays.
    pub fn observe(&self, observer: impl FnOnce() -> Arc<dyn ProgressObserver>) {
        self.shared.observer.get_or_init(observer);
    }

    /// Enables reading of updates in progress messages; the files in them are kept.
    pub fn read_updates(&self) {
        self.shared.reads_updates.store(true, Ordering::Relaxed);
    }

    /// Takes the files that came in updates so far.
    pub fn take_artifacts(&self) -> Vec<Artifact> {
        // Almost no call has any: skip the lock.
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

    /// Sends a log message to the client. A slow client loses messages.
    pub fn log(&self, params: RawJson) {
        let _ = self.shared.send(LinkEvent::Log(self.clean(strip_gateway_meta(params))));
    }

    /// Asks the client immediately, so that questions keep their order. The answer is awaited separately.
    pub fn question(&self, method: &str, params: Option<RawJson>) -> PendingQuestion {
        self.question_of(None, method, params)
    }

    fn question_of(&self, server: Option<&str>, method: &str, params: Option<RawJson>) -> PendingQuestion {
        let Some(open) = OpenQuestion::new(self.shared.clone()) else { return self.over_limit() };
        let params = params.map(|params| self.masked(params));
        if let Some(fallback) = self.fallback.as_ref().filter(|one| one.answers(method)) {
            let answer = AnswerSource::Fallback(fallback.clone().answer(params));
            return PendingQuestion { answer, _open: Some(open) };
        }
        let (reply, answer) = oneshot::channel();
        let question =
            ClientQuestion { server: server.map(str::to_owned), method: method.to_owned(), params, reply };
        match self.shared.send(LinkEvent::Question(question)) {
            Ok(()) => PendingQuestion { answer: AnswerSource::Client(answer), _open: Some(open) },
            Err(_) => PendingQuestion::refused(RpcError::new(
                METHOD_NOT_FOUND,
                format!("no client can answer {method}"),
            )),
        }
    }

    /// Asks a question that a server wrote: screens it so that it cannot pass for one of the gateway's, adds
    /// the server's name, and refuses a form that asks for a secret.
    pub fn server_question(&self, server: &str, method: &str, params: Option<RawJson>) -> PendingQuestion {
        match asked_by(server, method, params) {
            Ok(params) => self.question_of(Some(server), method, params),
            Err(fault) => {
                tracing::warn!(
                    server.name = server,
                    "a question from server `{server}` was refused: {fault}"
                );
                if OpenQuestion::new(self.shared.clone()).is_none() {
                    return self.over_limit();
                }
                PendingQuestion::refused(RpcError::new(INVALID_PARAMS, format!("refused: {fault}")))
            }
        }
    }

    /// Reports that a URL elicitation is complete. The receiver checks by the id whether it was its own.
    pub fn elicited(&self, params: RawJson) {
        let params = self.clean(strip_gateway_meta(params));
        let id = params.member("elicitationId");
        if let Some(id) = id.as_ref().and_then(RawJson::string).filter(|id| id.len() <= MAX_URL_ID) {
            let mut completed = self.shared.completed_urls();
            if completed.len() >= MAX_COMPLETED_URLS {
                completed.pop_front();
            }
            completed.push_back(id.into_owned());
        }
        let _ = self.shared.send(LinkEvent::Elicited(params));
    }

    /// Reports that the server confirmed a subscription.
    pub fn acknowledge(&self) {
        let _ = self.shared.send(LinkEvent::Acknowledged);
    }

    /// Asks the client and waits for the answer.
    pub async fn ask(&self, method: &str, params: Option<RawJson>) -> Result<RawJson, RpcError> {
        self.question(method, params).answer().await
    }

    /// The same for a question of a server that was screened already.
    pub async fn ask_for(
        &self,
        server: &str,
        method: &str,
        params: Option<RawJson>,
    ) -> Result<RawJson, RpcError> {
        self.question_of(Some(server), method, params).answer().await
    }
}

/// Screens the parameters of a server's question.
fn asked_by(
    server: &str,
    method: &str,
    params: Option<RawJson>,
) -> Result<Option<RawJson>, ElicitationFault> {
    if let Some(params) = &params {
        unambiguous(params)?;
    }
    let params = params.map(strip_gateway_meta);
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
    async fn a_servers_question_names_the_server_and_may_not_ask_for_a_secret() {
        let (link, mut events) = CallLink::new();
        let form = |field: &str| {
            let text = format!(
                r#"{{"message":"Well?","requestedSchema":{{"properties":{{"{field}":{{"type":"string"}}}}}}}}"#
            );
            Some(RawJson::trusted(text))
        };
        let refused = link.server_question("bank", "elicitation/create", form("password")).answer().await;
        assert_eq!(refused.map_err(|error| error.code), Err(INVALID_PARAMS));
        assert!(events.try_recv().is_none(), "the client is not asked");
        let asked = link.server_question("bank", "elicitation/create", form("city"));
        let Some(LinkEvent::Question(question)) = events.try_recv() else { panic!("a question") };
        let message = question.params.and_then(|params| params.member("message"));
        assert_eq!(message.expect("text").as_str(), r#""Server `bank` asks: Well?""#);
        drop(asked);
    }

    // With duplicate keys, the form that is checked could differ from the form that is shown.
    #[tokio::test]
    async fn a_question_with_a_duplicate_key_is_refused() {
        let (link, mut events) = CallLink::new();
        let harmless = r#""requestedSchema":{"properties":{"city":{"type":"string"}}}"#;
        let text = format!(r#"{{"message":"Well?","requestedSchema":{{}},{harmless}}}"#);
        for method in ["elicitation/create", "sampling/createMessage"] {
            let params = Some(RawJson::trusted(text.clone()));
            let refused = link.server_question("bank", method, params).answer().await;
            assert_eq!(refused.map_err(|error| error.code), Err(INVALID_PARAMS), "{method}");
        }
        assert!(events.try_recv().is_none(), "the client is not asked");
    }

    // Otherwise a server that asks one question after another would keep its call open forever.
    #[tokio::test(start_paused = true)]
    async fn questions_of_one_call_have_a_time_limit() {
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
        assert!(!link.waits_for_client(), "the server's deadline runs again");
        link.asked_too_much().await;
    }

    #[tokio::test]
    async fn the_number_of_questions_of_one_call_is_limited() {
        let (link, mut events) = CallLink::new();
        for number in 0..MAX_QUESTIONS {
            let asked = link.question("sampling/createMessage", None);
            assert!(matches!(events.try_recv(), Some(LinkEvent::Question(_))), "{number}");
            drop(asked);
        }
        let waiting = link.clone();
        let limit = tokio::spawn(async move { waiting.asked_too_much().await });
        tokio::task::yield_now().await;
        // A question refused for another reason counts as well.
        let twice = Some(RawJson::trusted(r#"{"a":1,"a":2}"#));
        let refused = link.server_question("bank", "sampling/createMessage", twice).answer().await;
        assert_eq!(refused.map_err(|error| error.code), Err(REFUSED));
        assert!(events.try_recv().is_none(), "the client is not asked");
        limit.await.expect("the waiting task is woken");
    }
}
