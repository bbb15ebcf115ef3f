//! A server over Streamable HTTP: every request its own POST, answered as JSON or as a stream.

use super::answer::{Reader, Received};
use super::client::{Client, Failure};
use super::credential::Credential;
use super::head::AnswerHead;
use super::heading::{Common, Heading};
use super::inbound::Inbound;
use crate::boxed::boxed;
use crate::duplex::Answering;
use crate::error::{HTML_PAGE, Sent, UpstreamError};
use crate::link::CallLink;
use crate::listening::Listening;
use crate::oauth::Next;
use crate::peer::{Asking, Notice, Outbound, Peer, PeerAnswer};
use crate::process::preview;
use crate::server_requests::ServerRequests;
use ::http::header::{ACCEPT, CONTENT_TYPE, HOST};
use ::http::{HeaderName, HeaderValue, Method, StatusCode};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_wire::envelope::{write_error, write_notification, write_result};
use toolbooth_wire::mirror;
use toolbooth_wire::{Era, Notification, Revision};

/// How often a refused request is repeated after new authorisation.
const AUTH_ROUNDS: usize = 3;
/// Where a broken stream is taken up again.
static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How many messages without an answer are under way at once.
const MAX_POSTS: usize = 8;
/// How long one of them may take.
const POST_PATIENCE: Duration = Duration::from_secs(30);
/// How long a call that may lead to questions waits for the stream they may come on.
const STREAM_PATIENCE: Duration = Duration::from_secs(1);

/// What an HTTP server is opened with.
#[derive(Debug)]
pub struct HttpParts {
    /// The server's name, for messages.
    pub server: Arc<str>,
    /// Connections to it.
    pub client: Arc<Client>,
    /// Headers of the configuration, sent with every request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The gateway's own credential.
    pub credential: Credential,
    /// Where its notices go.
    pub notices: mpsc::Sender<Notice>,
    /// What unasked `roots/list` is answered with.
    pub roots: Option<RawJson>,
    /// The largest answer taken.
    pub body_limit: usize,
    /// How long a long answer may stand still on its way.
    pub stall: Duration,
}

/// What the handshake settled.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) era: Era,
    pub(super) version: HeaderValue,
    pub(super) session: Option<HeaderValue>,
    /// What every POST says as long as this is agreed, once it was said.
    common: OnceLock<Arc<Common>>,
}

impl Agreed {
    fn new(era: Era, version: HeaderValue, session: Option<HeaderValue>) -> Self {
        Self { era, version, session, common: OnceLock::new() }
    }
}

/// A server over Streamable HTTP.
#[derive(Debug)]
pub struct HttpPeer {
    pub(super) parts: HttpParts,
    pub(super) agreed: ArcSwap<Agreed>,
    pub(super) closed: AtomicBool,
    host: HeaderValue,
    /// The stream of a legacy server's own messages.
    pub(super) own_stream: Listening,
    /// The calls under way whose clients may be asked something.
    askable: Mutex<Vec<(u64, CallLink)>>,
    requests: ServerRequests,
    /// Messages without an answer that are under way: each takes a connection.
    posts: Semaphore,
    /// Unsolicited answers.
    pub(super) unsolicited: AtomicU64,
    /// Why the gateway has given the server up.
    lost: OnceLock<String>,
}

/// A call whose client may be asked, for as long as it is under way.
struct Askable<'a> {
    peer: &'a HttpPeer,
    id: u64,
}

impl Drop for Askable<'_> {
    fn drop(&mut self) {
        self.peer.askable().retain(|(id, _)| *id != self.id);
    }
}

impl HttpPeer {
    /// A peer that has not shaken hands yet.
    pub fn new(parts: HttpParts) -> Arc<Self> {
        let newest = HeaderValue::from_static(Revision::NEWEST_MODERN.as_str());
        let agreed = Agreed::new(Era::Modern, newest, None);
        let host = HeaderValue::from_str(parts.client.origin().authority.as_str())
            .unwrap_or_else(|_| HeaderValue::from_static(""));
        Arc::new(Self {
            parts,
            agreed: ArcSwap::from_pointee(agreed),
            closed: AtomicBool::new(false),
            host,
            own_stream: Listening::default(),
            askable: Mutex::default(),
            requests: ServerRequests::default(),
            posts: Semaphore::new(MAX_POSTS),
            unsolicited: AtomicU64::new(0),
            lost: OnceLock::new(),
        })
    }

    /// What every request says.
    fn heading(&self, agreed: &Agreed) -> Heading {
        let mut heading = Heading::with_capacity(8 + self.parts.headers.len());
        heading.set(HOST, self.host.clone());
        heading.set(mirror::PROTOCOL_VERSION.clone(), agreed.version.clone());
        if let Some(session) = &agreed.session {
            heading.set(mirror::SESSION_ID.clone(), session.clone());
        }
        for (name, value) in &self.parts.headers {
            heading.set(name.clone(), value.clone());
        }
        heading
    }

    /// What a POST with a message says.
    fn post_heading(&self, outbound: Option<&Outbound>, agreed: &Agreed) -> Heading {
        let common = agreed.common.get_or_init(|| {
            let mut heading = self.heading(agreed);
            heading.set(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            heading.set(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
            heading.common()
        });
        let mut heading = Heading::of(common.clone());
        if let Some(outbound) = outbound {
            if outbound.method == "initialize" {
                heading.remove(&mirror::PROTOCOL_VERSION);
            } else if agreed.era == Era::Modern {
                heading.set(mirror::METHOD.clone(), HeaderValue::from_static(outbound.method));
                if let Some(name) = &outbound.name {
                    heading.set(mirror::NAME.clone(), name.clone());
                }
            }
            for (name, value) in &outbound.headers {
                heading.set(name.clone(), value.clone());
            }
        }
        heading
    }

    /// Sends a request with the credential, again after a challenge that could be met.
    async fn send(
        &self,
        method: Method,
        mut heading: Heading,
        body: Option<&Bytes>,
    ) -> Result<(AnswerHead, Inbound), UpstreamError> {
        let mut round = 0;
        loop {
            let credential = pin!(self.parts.credential.header()).await;
            if let Some((name, value)) = credential {
                heading.set(name, value);
            }
            let request = heading.request(&method, &self.parts.client.origin().path, body.cloned());
            let (head, body) =
                pin!(self.parts.client.exchange(request)).await.map_err(|failure| self.failed(failure))?;
            if !matches!(head.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                return Ok((head, body));
            }
            round += 1;
            let credential = &self.parts.credential;
            if head.status == StatusCode::FORBIDDEN && head.challenge.is_none() && !credential.can_ask() {
                return Ok((head, body));
            }
            let next = credential.challenged(head.status.as_u16(), head.challenge.as_deref()).await;
            if round > AUTH_ROUNDS || !matches!(next, Some(Next::Retry)) {
                return Err(UpstreamError::NeedsAuth {
                    server: self.name(),
                    challenge: head.challenge,
                    status: head.status.as_u16(),
                    remedy: credential.remedy(),
                });
            }
        }
    }

    fn failed(&self, failure: Failure) -> UpstreamError {
        match failure {
            Failure::NotSent(reason) => UpstreamError::Unreachable { server: self.name(), reason },
            Failure::Broken(reason) => UpstreamError::Lost { server: self.name(), reason, sent: Sent::Maybe },
        }
    }

    /// The era that was agreed on.
    pub(super) fn era(&self) -> Era {
        self.agreed.load().era
    }

    pub(super) fn name(&self) -> String {
        self.parts.server.to_string()
    }

    pub(super) fn bad(&self, what: impl Into<String>) -> UpstreamError {
        UpstreamError::BadAnswer { server: self.name(), what: what.into() }
    }

    /// A GET that opens a stream of the server's own: its notices, or the rest of a broken answer.
    pub(super) async fn open_stream(
        &self,
        last_id: Option<&str>,
    ) -> Result<(AnswerHead, Inbound), UpstreamError> {
        let mut heading = self.heading(&self.agreed.load());
        heading.set(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            heading.set(LAST_EVENT_ID.clone(), id);
        }
        self.send(Method::GET, heading, None).await
    }

    /// Sends a message that has no answer: a few at a time, and none for long.
    pub(super) async fn post_message(&self, body: Bytes) -> Result<(), UpstreamError> {
        let posted = tokio::time::timeout(POST_PATIENCE, async {
            let Ok(_place) = self.posts.acquire().await else {
                let reason = self.lost.get().cloned().unwrap_or_default();
                return Err(UpstreamError::Lost { server: self.name(), reason, sent: Sent::No });
            };
            self.post_now(body).await
        });
        let overdue = || UpstreamError::Timeout { server: self.name(), after: POST_PATIENCE };
        posted.await.unwrap_or_else(|_| Err(overdue()))
    }

    async fn post_now(&self, body: Bytes) -> Result<(), UpstreamError> {
        let heading = self.post_heading(None, &self.agreed.load());
        let (head, answer) = self.send(Method::POST, heading, Some(&body)).await?;
        let reader = Reader::new(&head, answer, self.parts.body_limit, self.parts.server.clone());
        let _ = reader.gather().await;
        let status = head.status;
        if status.is_success() { Ok(()) } else { Err(self.bad(format!("HTTP {status} to a notification"))) }
    }

    /// A notification that came with no call of its own, or beside one.
    pub(super) fn noticed(&self, notification: Notification, call: Option<(u64, &CallLink)>) {
        let Notification { method, params } = notification;
        match (method.as_str(), params, call) {
            ("notifications/progress", Some(params), Some((id, link)))
                if params.member("progressToken").is_some_and(|token| token.as_str() == id.to_string()) =>
            {
                link.progress(params);
            }
            ("notifications/message", Some(params), Some((_, link))) => link.log(params),
            ("notifications/subscriptions/acknowledged", _, Some((_, link))) => link.acknowledge(),
            ("notifications/elicitation/complete", Some(params), Some((_, link))) => link.elicited(params),
            ("notifications/elicitation/complete", Some(params), None) => {
                let links: Vec<CallLink> = self.askable().iter().map(|(_, link)| link.clone()).collect();
                links.iter().for_each(|link| link.elicited(params.clone()));
            }
            ("notifications/resources/updated", Some(params), _) => {
                Notice::ResourceUpdated(params).pass_on(&self.parts.notices);
            }
            (method, _, _) if method.ends_with("/list_changed") => {
                Notice::ListChanged(method.to_owned()).pass_on(&self.parts.notices);
            }
            _ => {}
        }
    }

    fn askable(&self) -> MutexGuard<'_, Vec<(u64, CallLink)>> {
        self.askable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that a question on no call's stream must be about: the only one under way. With several of
    /// them nobody can tell, and a guess might put one person's question to another.
    pub(super) fn only_askable(&self) -> Option<CallLink> {
        match self.askable().as_slice() {
            [(_, link)] => Some(link.clone()),
            _ => None,
        }
    }

    /// Prepares for questions that come on the server's own stream: servers built on common SDKs put them there,
    /// and lose them when it is not open yet.
    async fn expect_questions(&self, id: u64, link: &CallLink) -> Askable<'_> {
        self.own_stream.settled(STREAM_PATIENCE).await;
        self.askable().push((id, link.clone()));
        Askable { peer: self, id }
    }

    /// Answers a legacy server's question: the call's client where there is one, else by policy. A server that
    /// asks without end is given up.
    pub(super) fn asked(
        self: &Arc<Self>,
        request: toolbooth_wire::Request,
        link: Option<CallLink>,
    ) -> Result<(), UpstreamError> {
        let admitted = self.requests.admit(&request).map_err(|flood| self.flooded(&flood.to_string()))?;
        let peer = self.clone();
        // Put before anything else is read, so that questions keep their order.
        let answer = match (request.method.as_str(), link, &self.parts.roots) {
            ("ping", _, _) => Answering::Ready(Ok(RawJson::empty_object())),
            ("elicitation/create" | "sampling/createMessage" | "roots/list", Some(link), _) => {
                Answering::Asked(link.question_of(&self.parts.server, &request.method, request.params))
            }
            ("roots/list", None, Some(roots)) => Answering::Ready(Ok(roots.clone())),
            (method, _, _) => Answering::unknown(method),
        };
        tokio::spawn(async move {
            let answer = answer.settle().await;
            let body = match answer {
                Ok(result) => write_result(&request.id, &result),
                Err(error) => write_error(Some(&request.id), &error),
            };
            if let Err(error) = peer.post_message(body).await {
                tracing::debug!(server.name = %peer.parts.server, "an answer to a question could not be delivered: {error}");
            }
            drop(admitted);
        });
        Ok(())
    }

    /// Gives the server up. Calls that are answered without a stream end as they would have.
    fn flooded(&self, reason: &str) -> UpstreamError {
        if self.lost.set(reason.to_owned()).is_ok() {
            tracing::warn!(server.name = %self.parts.server, "server `{}` is disconnected: {reason}", self.parts.server);
            // Nothing more is sent on its behalf, answers that wait included.
            self.posts.close();
            if !self.closed.swap(true, Ordering::Relaxed) {
                Notice::Flooded(reason.to_owned()).pass_on(&self.parts.notices);
            }
        }
        UpstreamError::Flooded { server: self.name(), reason: reason.to_owned() }
    }

    async fn ask(
        self: &Arc<Self>,
        outbound: &Outbound,
        link: &CallLink,
    ) -> Result<PeerAnswer, UpstreamError> {
        if let Some(reason) = self.lost.get() {
            return Err(UpstreamError::Lost { server: self.name(), reason: reason.clone(), sent: Sent::No });
        }
        let agreed = self.agreed.load_full();
        let _askable = match outbound.asking {
            Asking::Allowed => Some(Box::pin(self.expect_questions(outbound.id, link)).await),
            Asking::Refused | Asking::No => None,
        };
        let heading = self.post_heading(Some(outbound), &agreed);
        let (mut head, body) = pin!(self.send(Method::POST, heading, Some(&outbound.text))).await?;
        if outbound.method == "initialize"
            && let Some(session) = head.session.take()
        {
            self.agreed.store(Arc::new(Agreed::new(agreed.era, agreed.version.clone(), Some(session))));
        }
        let status = head.status;
        if status == StatusCode::NOT_FOUND && agreed.session.is_some() {
            return Err(UpstreamError::SessionExpired { server: self.name() });
        }
        let reader = Reader::new(&head, body, self.parts.body_limit, self.parts.server.clone())
            .stalling(self.parts.stall);
        let questions =
            (outbound.asking == Asking::Allowed || agreed.era == Era::Legacy).then(|| link.clone());
        let location = head.location.take();
        let received = pin!(reader.receive(self, outbound, link, questions)).await?;
        match received {
            Received::Answer(answer) => Ok(answer),
            Received::NotAMessage(text) => {
                if status.is_server_error() {
                    let reason = format!("it answered HTTP {status}");
                    return Err(UpstreamError::Lost { server: self.name(), reason, sent: Sent::Maybe });
                }
                Err(self.bad(no_message(status, location.as_deref(), &text)))
            }
        }
    }
}

/// What a server said that is no message, as far as it tells anything.
fn no_message(status: StatusCode, location: Option<&[u8]>, text: &str) -> String {
    let start = text.trim_start().get(..14).unwrap_or(text).to_ascii_lowercase();
    if let Some(location) = location {
        // A query may hold what only this client should know.
        let place = location.split(|byte| *byte == b'?').next().unwrap_or_default();
        return format!("HTTP {status}, a redirect to {}", preview(place, 200));
    }
    match text.trim() {
        "" => format!("HTTP {status} and nothing else"),
        _ if start.starts_with("<!doctype html") || start.starts_with("<html") => {
            format!("HTTP {status} with {HTML_PAGE}")
        }
        text => format!("HTTP {status} with {text}"),
    }
}

/// Tells a legacy server that nobody waits any more. A modern one sees it: its stream was closed.
struct CancelOnDrop {
    peer: Arc<HttpPeer>,
    id: u64,
    armed: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.armed
            || self.peer.agreed.load().era == Era::Modern
            || self.peer.closed.load(Ordering::Relaxed)
        {
            return;
        }
        let mut params = ObjectWriter::default();
        params.raw("requestId", &RawJson::trusted(self.id.to_string()));
        params.text("reason", "the caller went away");
        let body = write_notification("notifications/cancelled", Some(&params.finish()));
        let peer = self.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = peer.post_message(body).await;
            });
        }
    }
}

#[async_trait]
impl Peer for Arc<HttpPeer> {
    // As `async_trait` would write it, but made in its box.
    fn request<'a, 'b, 'async_trait>(
        &'a self,
        outbound: Outbound,
        link: &'b CallLink,
    ) -> Pin<Box<dyn Future<Output = Result<PeerAnswer, UpstreamError>> + Send + 'async_trait>>
    where
        'a: 'async_trait,
        'b: 'async_trait,
        Self: 'async_trait,
    {
        boxed(move || async move {
            let armed = !matches!(outbound.method, "initialize" | "server/discover");
            let mut guard = CancelOnDrop { peer: self.clone(), id: outbound.id, armed };
            let answer = pin!(self.ask(&outbound, link)).await;
            guard.armed = false;
            answer
        })
    }

    async fn notify(&self, method: &'static str, params: Option<RawJson>) -> Result<(), UpstreamError> {
        self.post_message(write_notification(method, params.as_ref())).await
    }

    fn agreed(&self, era: Era, revision: Revision) {
        let version = HeaderValue::from_static(revision.as_str());
        let session = self.agreed.load().session.clone();
        self.agreed.store(Arc::new(Agreed::new(era, version, session)));
    }

    fn listen(&self) {
        if self.agreed.load().era == Era::Legacy {
            self.own_stream.begin();
            tokio::spawn(super::notices::follow(Arc::downgrade(self)));
        }
    }

    fn has_session(&self) -> bool {
        self.agreed.load().session.is_some()
    }

    fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    async fn listening(&self) {
        self.own_stream.before_reading().await;
    }

    async fn close(&self) {
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let agreed = self.agreed.load_full();
        if agreed.session.is_some() {
            let goodbye = self.send(Method::DELETE, self.heading(&agreed), None);
            let _ = tokio::time::timeout(Duration::from_secs(1), goodbye).await;
        }
        self.parts.client.close_idle();
    }
}
