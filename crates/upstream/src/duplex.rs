//! A server on a full-duplex channel: stdio, WebSocket, HTTP+SSE.
//!
//! These channels do not link a server's question to the call that caused it. A question is therefore
//! assigned to a call only if no other call could have caused it; calls whose clients can be asked take turns
//! (see `lease`).

use crate::error::{SentStatus, UpstreamError};
use crate::link::{CallLink, PendingQuestion};
use crate::peer::{EncodedRequest, Peer, PeerAnswer, QuestionPolicy, ServerNotice};
use crate::process::preview;
use crate::server_requests::ServerRequests;
use crate::unreadable::{id_of, is_answer, malformed_answers, spelled_id};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_wire::codes::METHOD_NOT_FOUND;
use toolbooth_wire::envelope::{Response, write_error, write_notification, write_result};
use toolbooth_wire::meta::SUBSCRIPTION_ID;
use toolbooth_wire::{Era, Id, Message, Notification, Request, Revision, RpcError};

/// Number of queued outgoing messages at which a server counts as busy.
pub const OUTGOING_BACKLOG: usize = 256;

/// Number of cancelled calls that are remembered.
const MAX_CANCELLED: usize = 256;

type AnswerResult = Result<Result<RawJson, RpcError>, UpstreamError>;

struct PendingCall {
    answer: oneshot::Sender<AnswerResult>,
    link: CallLink,
    question_policy: QuestionPolicy,
    /// Whether it is a subscription: long-lived, and not a call.
    is_subscription: bool,
}

/// Number of unsolicited or duplicate answers on all connections since the start.
static UNSOLICITED: AtomicU64 = AtomicU64::new(0);

/// Number of unsolicited answers: unknown ids and second answers.
pub fn unsolicited_answers() -> u64 {
    UNSOLICITED.load(Ordering::Relaxed)
}

/// The result of handling one text from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// It was a message.
    Yes,
    /// It was something else, which a server should not write there.
    No,
    /// The transport must close the connection. All waiting calls have been failed already.
    Last,
}

/// The part that all duplex transports share: matches answers to waiting calls.
#[derive(Debug)]
pub struct DuplexPeer {
    server: String,
    outgoing: mpsc::Sender<Bytes>,
    notices: mpsc::Sender<ServerNotice>,
    pending: Mutex<PendingCalls>,
    roots: Option<RawJson>,
    requests: ServerRequests,
    /// Number of unsolicited answers on this connection.
    unsolicited: AtomicU64,
    /// Whether the server has sent a question during a call.
    has_asked: AtomicBool,
    closing: AtomicBool,
    on_close: Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>,
}

#[derive(Default)]
struct PendingCalls {
    calls: HashMap<u64, PendingCall>,
    /// The most recently cancelled calls; servers may still answer them.
    cancelled: VecDeque<u64>,
    lost: Option<String>,
}

impl PendingCalls {
    /// The id of the only call in flight, not counting subscriptions.
    fn only_call(&self) -> Option<u64> {
        let mut calls = self.calls.iter().filter(|(_, call)| !call.is_subscription);
        calls.next().filter(|_| calls.next().is_none()).map(|(id, _)| *id)
    }

    fn remember_cancelled(&mut self, id: u64) {
        if self.cancelled.len() >= MAX_CANCELLED {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back(id);
    }

    /// Whether the answer belongs to a cancelled call. Each cancelled call is reported once.
    fn was_cancelled(&mut self, id: u64) -> bool {
        let at = self.cancelled.iter().position(|cancelled| *cancelled == id);
        at.and_then(|at| self.cancelled.remove(at)).is_some()
    }

    fn take_only_call(&mut self) -> Option<PendingCall> {
        self.only_call().and_then(|id| self.calls.remove(&id))
    }
}

/// Counts an unsolicited answer and logs the first one of a connection.
pub(crate) fn note_unsolicited(server: &str, on_connection: &AtomicU64) {
    UNSOLICITED.fetch_add(1, Ordering::Relaxed);
    if on_connection.fetch_add(1, Ordering::Relaxed) == 0 {
        tracing::warn!(
            server.name = server,
            "server `{server}` sent an unsolicited answer; further ones are only counted"
        );
    }
}

impl std::fmt::Debug for PendingCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} waiting", self.calls.len())
    }
}

impl DuplexPeer {
    /// Creates a peer that writes to `outgoing`. The transport calls [`receive`](Self::receive) for every
    /// incoming message and [`lost`](Self::lost) at the end. `on_close` asks the transport to close; the
    /// transport confirms.
    pub fn new(
        server: &str,
        outgoing: mpsc::Sender<Bytes>,
        notices: mpsc::Sender<ServerNotice>,
        roots: Option<RawJson>,
        on_close: oneshot::Sender<oneshot::Sender<()>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            outgoing,
            notices,
            pending: Mutex::default(),
            roots,
            requests: ServerRequests::default(),
            unsolicited: AtomicU64::new(0),
            has_asked: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            on_close: Mutex::new(Some(on_close)),
        })
    }

    fn waiting(&self) -> MutexGuard<'_, PendingCalls> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles one message from the server.
    pub fn receive(self: &Arc<Self>, text: &Bytes) -> ReceiveOutcome {
        match Message::parse(text) {
            Ok(Message::Response(response)) => self.answered(response, text),
            Ok(Message::Notification(notification)) => self.handle_notification(notification),
            Ok(Message::Request(request)) => return self.handle_request(request),
            Err(unreadable) => {
                let what = preview(unreadable.error.message.as_bytes(), 200);
                let error = UpstreamError::BadAnswer { server: self.server.clone(), what };
                return match is_answer(text, &unreadable) {
                    true => self.fail_unreadable(id_of(text, &unreadable), error),
                    false => self.fail_malformed(text, &error),
                };
            }
        }
        ReceiveOutcome::Yes
    }

    /// Delivers an answer to the call with its id. If the id is a differently spelled id of a call, that call
    /// fails.
    fn answered(&self, response: Response, text: &Bytes) {
        let Response { id, outcome } = response;
        if let Some(id) = id.as_ref().and_then(Id::as_number) {
            return self.settle(id, Ok(outcome));
        }
        if let Some(id) = spelled_id(text) {
            let what = format!("an answer whose id is not the number {id} that was sent");
            return self.settle(id, Err(UpstreamError::BadAnswer { server: self.server.clone(), what }));
        }
        // A server that could not parse a request answers without its id.
        let pending = match id.is_none() && outcome.is_err() {
            true => self.waiting().take_only_call(),
            false => None,
        };
        match pending {
            Some(pending) => drop(pending.answer.send(Ok(outcome))),
            None => note_unsolicited(&self.server, &self.unsolicited),
        }
    }

    /// Completes the call with this id. Without such a call, the answer is counted as unsolicited.
    fn settle(&self, id: u64, outcome: AnswerResult) {
        let (pending, was_cancelled) = {
            let mut waiting = self.waiting();
            let pending = waiting.calls.remove(&id);
            let was_cancelled = pending.is_none() && waiting.was_cancelled(id);
            (pending, was_cancelled)
        };
        match pending {
            Some(pending) => drop(pending.answer.send(outcome)),
            None if was_cancelled => {}
            None => note_unsolicited(&self.server, &self.unsolicited),
        }
    }

    /// Fails the calls whose answers came without `jsonrpc` or inside a batch. An answer to an unknown call
    /// is only counted: it may also be a log line.
    fn fail_malformed(&self, text: &Bytes, error: &UpstreamError) -> ReceiveOutcome {
        let mut taken = ReceiveOutcome::No;
        for id in malformed_answers(text) {
            match id.filter(|id| self.waiting().calls.contains_key(id)) {
                Some(id) => {
                    self.settle(id, Err(error.clone()));
                    taken = ReceiveOutcome::Yes;
                }
                None => note_unsolicited(&self.server, &self.unsolicited),
            }
        }
        if taken == ReceiveOutcome::No {
            self.stray("a line that is not a message");
        }
        taken
    }

    /// Fails the call of an answer over the size limit; without an id, like any unreadable answer.
    pub fn oversized(&self, id: Option<u64>, limit: usize) -> ReceiveOutcome {
        self.fail_unreadable(id, UpstreamError::TooLarge { server: self.server.clone(), limit })
    }

    /// Whether exactly one call is in flight.
    pub(crate) fn has_only_one_call(&self) -> bool {
        self.waiting().only_call().is_some()
    }

    /// Fails the call of an unreadable answer. If the call is unknown and several are waiting, all of them
    /// fail and the connection closes, because one of them would otherwise wait until its deadline.
    fn fail_unreadable(&self, id: Option<u64>, error: UpstreamError) -> ReceiveOutcome {
        let mut waiting = self.waiting();
        let pending = match id.and_then(|id| waiting.calls.remove(&id)) {
            Some(pending) => Some(pending),
            None => waiting.take_only_call(),
        };
        if let Some(pending) = pending {
            drop(waiting);
            let _ = pending.answer.send(Err(error));
            return ReceiveOutcome::Yes;
        }
        let has_calls = waiting.calls.values().any(|call| !call.is_subscription);
        drop(waiting);
        if !has_calls {
            self.stray("an unreadable answer to an unknown request");
            return ReceiveOutcome::No;
        }
        let reason = format!("it sent an unreadable answer while several calls were waiting: {error}");
        self.disconnect(&reason, &error);
        self.notice_end(ServerNotice::Closed(reason));
        ReceiveOutcome::Last
    }

    /// Closes the connection and fails all waiting calls with `error`.
    fn disconnect(&self, reason: &str, error: &UpstreamError) {
        tracing::warn!(server.name = %self.server, "server `{}` is disconnected: {reason}", self.server);
        for pending in self.take_all(reason) {
            let _ = pending.answer.send(Err(error.clone()));
        }
    }

    /// Notifies the supervisor, unless the gateway itself closed the connection.
    fn notice_end(&self, notice: ServerNotice) {
        if !self.closing.load(Ordering::Relaxed) {
            notice.pass_on(&self.notices);
        }
    }

    /// Marks the channel as lost and takes all waiting calls. The first reason is kept.
    fn take_all(&self, reason: &str) -> Vec<PendingCall> {
        let mut waiting = self.waiting();
        waiting.lost.get_or_insert_with(|| reason.to_owned());
        std::mem::take(&mut waiting.calls).into_values().collect()
    }

    /// Marks the channel as lost and fails all waiting calls.
    pub fn lost(&self, reason: &str) {
        let known = self.waiting().lost.is_some();
        for pending in self.take_all(reason) {
            let error = UpstreamError::Lost {
                server: self.server.clone(),
                reason: reason.to_owned(),
                sent: SentStatus::Maybe,
            };
            let _ = pending.answer.send(Err(error));
        }
        if !known {
            self.notice_end(ServerNotice::Closed(reason.to_owned()));
        }
    }

    fn stray(&self, what: &str) {
        tracing::debug!(server.name = %self.server, "server `{}` sent {what}", self.server);
    }

    fn handle_notification(&self, notification: Notification) {
        let Notification { method, params } = notification;
        match (method.as_str(), params) {
            ("notifications/progress", Some(params)) => {
                let token =
                    params.member("progressToken").and_then(|token| token.as_str().parse::<u64>().ok());
                let link = token.and_then(|id| self.waiting().calls.get(&id).map(|call| call.link.clone()));
                match link {
                    Some(link) => link.progress(params),
                    None => self.stray("progress for an unknown request"),
                }
            }
            ("notifications/message", Some(params)) => {
                // The message can be assigned only if one call is in flight.
                let link = {
                    let waiting = self.waiting();
                    let mut calls = waiting.calls.values().filter(|call| !call.is_subscription);
                    calls.next().filter(|_| calls.next().is_none()).map(|call| call.link.clone())
                };
                if let Some(link) = link {
                    link.log(params);
                }
            }
            ("notifications/subscriptions/acknowledged", Some(params)) => {
                let id =
                    params.at(&["_meta", SUBSCRIPTION_ID]).and_then(|id| id.as_str().parse::<u64>().ok());
                if let Some(call) =
                    id.and_then(|id| self.waiting().calls.get(&id).map(|call| call.link.clone()))
                {
                    call.acknowledge();
                }
            }
            ("notifications/elicitation/complete", Some(params)) => {
                let links: Vec<CallLink> = {
                    let waiting = self.waiting();
                    let asked =
                        waiting.calls.values().filter(|call| call.question_policy == QuestionPolicy::Allowed);
                    asked.map(|call| call.link.clone()).collect()
                };
                links.iter().for_each(|link| link.elicited(params.clone()));
            }
            ("notifications/resources/updated", Some(params)) => {
                ServerNotice::ResourceUpdated(params).pass_on(&self.notices);
            }
            (method, _) if method.ends_with("/list_changed") => {
                ServerNotice::ListChanged(method.to_owned()).pass_on(&self.notices);
            }
            _ => {}
        }
    }

    /// The call that a server's question belongs to. A call whose client cannot be asked may also have caused
    /// it, so while one is in flight, a question is assigned to no call.
    fn cause(&self) -> Option<CallLink> {
        let waiting = self.waiting();
        let mut calls = waiting.calls.values().filter(|call| call.question_policy != QuestionPolicy::No);
        let first = calls.next()?;
        self.has_asked.store(true, Ordering::Relaxed);
        let alone = calls.next().is_none();
        (alone && first.question_policy == QuestionPolicy::Allowed).then(|| first.link.clone())
    }

    fn handle_request(self: &Arc<Self>, request: Request) -> ReceiveOutcome {
        let admitted = match self.requests.admit(&request) {
            Ok(admitted) => admitted,
            Err(flood) => {
                let reason = flood.to_string();
                let error = UpstreamError::Flooded { server: self.server.clone(), reason: reason.clone() };
                self.disconnect(&reason, &error);
                self.notice_end(ServerNotice::Flooded(reason));
                return ReceiveOutcome::Last;
            }
        };
        let Request { id, method, params } = request;
        let link = if method == "ping" { None } else { self.cause() };
        let peer = self.clone();
        // Asked before anything else is read, so that questions keep their order.
        let answer = match (method.as_str(), link, &self.roots) {
            ("ping", _, _) => QuestionAnswer::Ready(Ok(RawJson::empty_object())),
            ("elicitation/create" | "sampling/createMessage" | "roots/list", Some(link), _) => {
                QuestionAnswer::Asked(link.server_question(&self.server, &method, params))
            }
            ("roots/list", None, Some(roots)) => QuestionAnswer::Ready(Ok(roots.clone())),
            _ => QuestionAnswer::unknown(&method),
        };
        tokio::spawn(async move {
            let answer = answer.settle().await;
            let text = match answer {
                Ok(result) => write_result(&id, &result),
                Err(error) => write_error(Some(&id), &error),
            };
            let _ = peer.outgoing.send(text).await;
            drop(admitted);
        });
        ReceiveOutcome::Yes
    }
}

/// The answer to a server's question: ready, or pending at the client.
pub(crate) enum QuestionAnswer {
    Ready(Result<RawJson, RpcError>),
    Asked(PendingQuestion),
}

impl QuestionAnswer {
    /// The answer to an unknown method.
    pub(crate) fn unknown(method: &str) -> Self {
        let shown = preview(method.as_bytes(), 100);
        Self::Ready(Err(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {shown}"))))
    }

    pub(crate) async fn settle(self) -> Result<RawJson, RpcError> {
        match self {
            Self::Ready(answer) => answer,
            Self::Asked(asked) => asked.answer().await,
        }
    }
}

/// Removes a call that its caller dropped, and cancels it on the server.
struct CancelCallOnDrop<'a> {
    peer: &'a DuplexPeer,
    link: &'a CallLink,
    id: u64,
    armed: bool,
}

impl Drop for CancelCallOnDrop<'_> {
    fn drop(&mut self) {
        let waited = {
            let mut waiting = self.peer.waiting();
            let waited = waiting.calls.remove(&self.id).is_some();
            if waited {
                waiting.remember_cancelled(self.id);
            }
            waited
        };
        if waited && self.armed {
            let mut params = ObjectWriter::default();
            params.raw("requestId", &RawJson::trusted(self.id.to_string()));
            params.text("reason", self.link.cancel_reason());
            let text = write_notification("notifications/cancelled", Some(&params.finish()));
            let _ = self.peer.outgoing.try_send(text);
        }
    }
}

#[async_trait]
impl Peer for Arc<DuplexPeer> {
    async fn request(&self, outbound: EncodedRequest, link: &CallLink) -> Result<PeerAnswer, UpstreamError> {
        let (answer, outcome) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if let Some(reason) = &waiting.lost {
                return Err(UpstreamError::Lost {
                    server: self.server.clone(),
                    reason: reason.clone(),
                    sent: SentStatus::No,
                });
            }
            let is_subscription = outbound.method == "subscriptions/listen";
            let pending = PendingCall {
                answer,
                link: link.clone(),
                question_policy: outbound.question_policy,
                is_subscription,
            };
            waiting.calls.insert(outbound.id, pending);
        }
        // Handshake requests cannot be cancelled.
        let armed = !matches!(outbound.method, "initialize" | "server/discover");
        let mut guard = CancelCallOnDrop { peer: self, link, id: outbound.id, armed };
        let text = outbound.text;
        if let Err(refused) = self.outgoing.try_send(text) {
            self.waiting().calls.remove(&outbound.id);
            return Err(match refused {
                mpsc::error::TrySendError::Full(_) => UpstreamError::Busy { server: self.server.clone() },
                mpsc::error::TrySendError::Closed(_) => UpstreamError::Lost {
                    server: self.server.clone(),
                    reason: "the connection is closed".into(),
                    sent: SentStatus::No,
                },
            });
        }
        let outcome = outcome.await;
        guard.armed = false;
        match outcome {
            Ok(outcome) => outcome.map(PeerAnswer::Whole),
            Err(_) => Err(UpstreamError::Lost {
                server: self.server.clone(),
                reason: "the connection is closed".into(),
                sent: SentStatus::Maybe,
            }),
        }
    }

    async fn notify(&self, method: &'static str, params: Option<RawJson>) -> Result<(), UpstreamError> {
        let text = write_notification(method, params.as_ref());
        self.outgoing.try_send(text).map_err(|_| UpstreamError::Busy { server: self.server.clone() })
    }

    fn agreed(&self, _: Era, _: Revision) {}

    fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    fn is_lost(&self) -> bool {
        self.waiting().lost.is_some()
    }

    async fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        let closer = self.on_close.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(closer) = closer {
            let (done, confirmed) = oneshot::channel();
            if closer.send(done).is_ok() {
                let _ = confirmed.await;
            }
        }
        self.lost("the gateway closed the connection");
    }
}
