//! A server over Streamable HTTP: each request is a POST, answered with JSON or an event stream.

mod notices;
mod response_reader;

use super::client::OriginClient;
use super::incoming_body::IncomingBody;
use super::request_headers::{CommonHeaders, RequestHeaders};
use super::response_head::{ResponseHead, is_overload};
use super::send_error::SendError;
use crate::credential::ServerCredential;
use crate::duplex::QuestionAnswer;
use crate::error::{HTML_PAGE, SentStatus, UpstreamError};
use crate::link::CallLink;
use crate::list_changes::StreamState;
use crate::oauth::RetryDecision;
use crate::peer::{EncodedRequest, Peer, PeerAnswer, QuestionPolicy, ServerNotice};
use crate::process::preview;
use crate::server_requests::ServerRequests;
use ::http::header::{ACCEPT, CONTENT_TYPE, HOST};
use ::http::{HeaderName, HeaderValue, Method, StatusCode};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use response_reader::{Received, ResponseReader};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_wire::envelope::{write_error, write_notification, write_result};
use toolbooth_wire::mirror;
use toolbooth_wire::{Era, Notification, Revision};

/// Maximum number of retries with a new credential.
const MAX_AUTH_RETRIES: usize = 3;
/// The header that resumes a broken stream.
static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Maximum number of concurrent POSTs of messages without an answer.
const MAX_POSTS: usize = 8;
/// Timeout of such a POST.
const POST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a call whose client can be asked waits for the server's own stream, where questions may arrive.
const STREAM_OPEN_TIMEOUT: Duration = Duration::from_secs(1);

/// Parameters for opening an HTTP server.
#[derive(Debug)]
pub struct HttpParts {
    /// The server's name in messages.
    pub server: Arc<str>,
    /// The HTTP client.
    pub client: Arc<OriginClient>,
    /// Configured headers, sent with every request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The gateway's own credential.
    pub credential: ServerCredential,
    /// Receives the server's notices.
    pub notices: mpsc::Sender<ServerNotice>,
    /// The answer to `roots/list` outside a call.
    pub roots: Option<RawJson>,
    /// Maximum response size.
    pub body_limit: usize,
    /// The read timeout of a long response.
    pub stall: Duration,
}

/// The protocol parameters agreed in the handshake.
#[derive(Debug)]
pub(super) struct AgreedProtocol {
    pub(super) era: Era,
    pub(super) version: HeaderValue,
    pub(super) session: Option<HeaderValue>,
    /// The common headers of every POST, serialised on first use.
    common: OnceLock<Arc<CommonHeaders>>,
}

impl AgreedProtocol {
    fn new(era: Era, version: HeaderValue, session: Option<HeaderValue>) -> Self {
        Self { era, version, session, common: OnceLock::new() }
    }
}

/// A server over Streamable HTTP.
#[derive(Debug)]
pub struct HttpPeer {
    pub(super) parts: HttpParts,
    pub(super) agreed: ArcSwap<AgreedProtocol>,
    pub(super) closed: AtomicBool,
    host: HeaderValue,
    /// The stream of a legacy server's own messages.
    pub(super) own_stream: StreamState,
    /// The calls in flight whose clients can be asked.
    askable: Mutex<Vec<(u64, CallLink)>>,
    requests: ServerRequests,
    /// Limits the messages without an answer: each takes a connection.
    posts: Semaphore,
    /// Number of unsolicited answers.
    pub(super) unsolicited: AtomicU64,
    /// Why the gateway gave the server up.
    lost: OnceLock<String>,
}

/// Registers a call whose client can be asked while it is in flight.
struct AskableCall<'a> {
    peer: &'a HttpPeer,
    id: u64,
}

impl Drop for AskableCall<'_> {
    fn drop(&mut self) {
        self.peer.askable().retain(|(id, _)| *id != self.id);
    }
}

impl HttpPeer {
    /// Creates a peer before the handshake.
    pub fn new(parts: HttpParts) -> Arc<Self> {
        let newest = HeaderValue::from_static(Revision::NEWEST_MODERN.as_str());
        let agreed = AgreedProtocol::new(Era::Modern, newest, None);
        let host = HeaderValue::from_str(parts.client.origin().authority.as_str())
            .unwrap_or_else(|_| HeaderValue::from_static(""));
        Arc::new(Self {
            parts,
            agreed: ArcSwap::from_pointee(agreed),
            closed: AtomicBool::new(false),
            host,
            own_stream: StreamState::default(),
            askable: Mutex::default(),
            requests: ServerRequests::default(),
            posts: Semaphore::new(MAX_POSTS),
            unsolicited: AtomicU64::new(0),
            lost: OnceLock::new(),
        })
    }

    /// The headers of every request.
    fn heading(&self, agreed: &AgreedProtocol) -> RequestHeaders {
        let mut heading = RequestHeaders::with_capacity(8 + self.parts.headers.len());
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

    /// The headers of a POST with a message.
    fn post_heading(&self, outbound: Option<&EncodedRequest>, agreed: &AgreedProtocol) -> RequestHeaders {
        let common = agreed.common.get_or_init(|| {
            let mut heading = self.heading(agreed);
            heading.set(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            heading.set(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
            heading.common()
        });
        let mut heading = RequestHeaders::of(common.clone());
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

    /// Sends a request with the credential, and again after a challenge that could be answered.
    async fn send(
        &self,
        method: Method,
        mut heading: RequestHeaders,
        body: Option<&Bytes>,
    ) -> Result<(ResponseHead, IncomingBody), UpstreamError> {
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
            if head.status == StatusCode::FORBIDDEN && head.challenge.is_none() && !credential.can_renew() {
                return Ok((head, body));
            }
            let next = credential.challenged(head.status.as_u16(), head.challenge.as_deref()).await;
            if round > MAX_AUTH_RETRIES || !matches!(next, Some(RetryDecision::Retry)) {
                return Err(UpstreamError::NeedsAuth {
                    server: self.name(),
                    challenge: head.challenge,
                    status: head.status.as_u16(),
                    remedy: credential.remedy(),
                });
            }
        }
    }

    fn failed(&self, failure: SendError) -> UpstreamError {
        match failure {
            SendError::NotSent(reason) => UpstreamError::Unreachable { server: self.name(), reason },
            SendError::Broken(reason) => {
                UpstreamError::Lost { server: self.name(), reason, sent: SentStatus::Maybe }
            }
        }
    }

    /// The negotiated era.
    pub(super) fn era(&self) -> Era {
        self.agreed.load().era
    }

    pub(super) fn name(&self) -> String {
        self.parts.server.to_string()
    }

    pub(super) fn bad(&self, what: impl Into<String>) -> UpstreamError {
        UpstreamError::BadAnswer { server: self.name(), what: what.into() }
    }

    /// Opens one of the server's streams with a GET: its notices, or the rest of a broken response.
    pub(super) async fn open_stream(
        &self,
        last_id: Option<&str>,
    ) -> Result<(ResponseHead, IncomingBody), UpstreamError> {
        let mut heading = self.heading(&self.agreed.load());
        heading.set(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            heading.set(LAST_EVENT_ID.clone(), id);
        }
        self.send(Method::GET, heading, None).await
    }

    /// Sends a message that has no answer, with limits on concurrency and time.
    pub(super) async fn post_message(&self, body: Bytes) -> Result<(), UpstreamError> {
        let posted = tokio::time::timeout(POST_TIMEOUT, async {
            let Ok(_place) = self.posts.acquire().await else {
                let reason = self.lost.get().cloned().unwrap_or_default();
                return Err(UpstreamError::Lost { server: self.name(), reason, sent: SentStatus::No });
            };
            self.post_now(body).await
        });
        let overdue = || UpstreamError::Timeout { server: self.name(), after: POST_TIMEOUT };
        posted.await.unwrap_or_else(|_| Err(overdue()))
    }

    async fn post_now(&self, body: Bytes) -> Result<(), UpstreamError> {
        let heading = self.post_heading(None, &self.agreed.load());
        let (head, answer) = self.send(Method::POST, heading, Some(&body)).await?;
        let reader = ResponseReader::new(&head, answer, self.parts.body_limit, self.parts.server.clone());
        let _ = reader.gather().await;
        let status = head.status;
        if status.is_success() { Ok(()) } else { Err(self.bad(format!("HTTP {status} to a notification"))) }
    }

    /// Handles a notification, on a call's stream or on the server's own.
    pub(super) fn handle_notification(&self, notification: Notification, call: Option<(u64, &CallLink)>) {
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
                ServerNotice::ResourceUpdated(params).pass_on(&self.parts.notices);
            }
            (method, _, _) if method.ends_with("/list_changed") => {
                ServerNotice::ListChanged(method.to_owned()).pass_on(&self.parts.notices);
            }
            _ => {}
        }
    }

    fn askable(&self) -> MutexGuard<'_, Vec<(u64, CallLink)>> {
        self.askable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that a question on the server's own stream belongs to: the only one in flight. With several,
    /// a guess might show one user's question to another.
    pub(super) fn only_askable(&self) -> Option<CallLink> {
        match self.askable().as_slice() {
            [(_, link)] => Some(link.clone()),
            _ => None,
        }
    }

    /// Prepares for questions on the server's own stream: servers built on common SDKs send them there and
    /// lose them if it is not open yet.
    async fn expect_questions(&self, id: u64, link: &CallLink) -> AskableCall<'_> {
        self.own_stream.settled(STREAM_OPEN_TIMEOUT).await;
        self.askable().push((id, link.clone()));
        AskableCall { peer: self, id }
    }

    /// Answers a legacy server's question: asks the call's client if there is one, otherwise applies the
    /// defaults. A server that exceeds the limits is given up.
    pub(super) fn handle_request(
        self: &Arc<Self>,
        request: toolbooth_wire::Request,
        link: Option<CallLink>,
    ) -> Result<(), UpstreamError> {
        let admitted = self.requests.admit(&request).map_err(|flood| self.flooded(&flood.to_string()))?;
        let peer = self.clone();
        // Asked before anything else is read, so that questions keep their order.
        let answer = match (request.method.as_str(), link, &self.parts.roots) {
            ("ping", _, _) => QuestionAnswer::Ready(Ok(RawJson::empty_object())),
            ("elicitation/create" | "sampling/createMessage" | "roots/list", Some(link), _) => {
                QuestionAnswer::Asked(link.server_question(
                    &self.parts.server,
                    &request.method,
                    request.params,
                ))
            }
            ("roots/list", None, Some(roots)) => QuestionAnswer::Ready(Ok(roots.clone())),
            (method, _, _) => QuestionAnswer::unknown(method),
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

    /// Gives the server up. Calls that are answered without a stream finish normally.
    fn flooded(&self, reason: &str) -> UpstreamError {
        if self.lost.set(reason.to_owned()).is_ok() {
            tracing::warn!(server.name = %self.parts.server, "server `{}` is disconnected: {reason}", self.parts.server);
            // Nothing more is sent to it, including queued answers.
            self.posts.close();
            if !self.closed.swap(true, Ordering::Relaxed) {
                ServerNotice::Flooded(reason.to_owned()).pass_on(&self.parts.notices);
            }
        }
        UpstreamError::Flooded { server: self.name(), reason: reason.to_owned() }
    }

    async fn exchange(
        self: &Arc<Self>,
        outbound: &EncodedRequest,
        link: &CallLink,
    ) -> Result<PeerAnswer, UpstreamError> {
        if let Some(reason) = self.lost.get() {
            return Err(UpstreamError::Lost {
                server: self.name(),
                reason: reason.clone(),
                sent: SentStatus::No,
            });
        }
        let agreed = self.agreed.load_full();
        let _askable = match outbound.question_policy {
            QuestionPolicy::Allowed => Some(Box::pin(self.expect_questions(outbound.id, link)).await),
            QuestionPolicy::Refused | QuestionPolicy::No => None,
        };
        let heading = self.post_heading(Some(outbound), &agreed);
        let (mut head, body) = pin!(self.send(Method::POST, heading, Some(&outbound.text))).await?;
        if outbound.method == "initialize"
            && let Some(session) = head.session.take()
        {
            self.agreed.store(Arc::new(AgreedProtocol::new(
                agreed.era,
                agreed.version.clone(),
                Some(session),
            )));
        }
        let status = head.status;
        if status == StatusCode::NOT_FOUND && agreed.session.is_some() {
            return Err(UpstreamError::SessionExpired { server: self.name() });
        }
        let reader = ResponseReader::new(&head, body, self.parts.body_limit, self.parts.server.clone())
            .stalling(self.parts.stall);
        let questions = (outbound.question_policy == QuestionPolicy::Allowed || agreed.era == Era::Legacy)
            .then(|| link.clone());
        let (location, wait) = (head.location.take(), head.retry_after);
        let received = pin!(reader.receive(self, outbound, link, questions)).await?;
        match received {
            // A 503 without `Retry-After` may come from a proxy that lost the server during the call.
            Received::NotAMessage(_) | Received::Answer(PeerAnswer::Whole(Err(_)))
                if status == StatusCode::TOO_MANY_REQUESTS || (is_overload(status) && wait.is_some()) =>
            {
                let (server, status) = (self.name(), status.as_u16());
                Err(UpstreamError::Overloaded { server, status, retry_after: wait })
            }
            Received::Answer(answer) => Ok(answer),
            Received::NotAMessage(text) => {
                if status.is_server_error() {
                    let reason = format!("it answered HTTP {status}");
                    return Err(UpstreamError::Lost { server: self.name(), reason, sent: SentStatus::Maybe });
                }
                Err(self.bad(describe_non_message(status, location.as_deref(), &text)))
            }
        }
    }
}

/// Describes a response that is not a message.
fn describe_non_message(status: StatusCode, location: Option<&[u8]>, text: &str) -> String {
    let start = text.trim_start().get(..14).unwrap_or(text).to_ascii_lowercase();
    if let Some(location) = location {
        // A query may hold secrets of this client.
        let place = location.split(|byte| *byte == b'?').next().unwrap_or_default();
        return format!("HTTP {status}, a redirect to {}", preview(place, 200));
    }
    match text.trim() {
        "" => format!("HTTP {status} and an empty body"),
        _ if start.starts_with("<!doctype html") || start.starts_with("<html") => {
            format!("HTTP {status} with {HTML_PAGE}")
        }
        text => format!("HTTP {status} with {text}"),
    }
}

/// Cancels a request on a legacy server when it is dropped. A modern server sees its stream close.
struct CancelRequestOnDrop<'a> {
    peer: Arc<HttpPeer>,
    link: &'a CallLink,
    id: u64,
    armed: bool,
}

impl Drop for CancelRequestOnDrop<'_> {
    fn drop(&mut self) {
        if !self.armed
            || self.peer.agreed.load().era == Era::Modern
            || self.peer.closed.load(Ordering::Relaxed)
        {
            return;
        }
        let mut params = ObjectWriter::default();
        params.raw("requestId", &RawJson::trusted(self.id.to_string()));
        params.text("reason", self.link.cancel_reason());
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
    async fn request(&self, outbound: EncodedRequest, link: &CallLink) -> Result<PeerAnswer, UpstreamError> {
        let armed = !matches!(outbound.method, "initialize" | "server/discover");
        let mut guard = CancelRequestOnDrop { peer: self.clone(), link, id: outbound.id, armed };
        let answer = pin!(self.exchange(&outbound, link)).await;
        guard.armed = false;
        answer
    }

    async fn notify(&self, method: &'static str, params: Option<RawJson>) -> Result<(), UpstreamError> {
        self.post_message(write_notification(method, params.as_ref())).await
    }

    fn agreed(&self, era: Era, revision: Revision) {
        let version = HeaderValue::from_static(revision.as_str());
        let session = self.agreed.load().session.clone();
        self.agreed.store(Arc::new(AgreedProtocol::new(era, version, session)));
    }

    fn listen(&self) {
        if self.agreed.load().era == Era::Legacy {
            self.own_stream.begin();
            tokio::spawn(notices::follow(Arc::downgrade(self)));
        }
    }

    fn has_session(&self) -> bool {
        self.agreed.load().session.is_some()
    }

    fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    async fn wait_for_stream(&self) {
        self.own_stream.wait_before_listing().await;
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
