//! A server on a channel that carries everything both ways: stdio, WebSocket, HTTP+SSE.
//!
//! Nothing on such a channel links a server's question to the call that caused it. So a question is a
//! call's only while no other call could have caused it; who may be asked gets a turn (see `seat`).

use crate::error::{Sent, UpstreamError};
use crate::link::{Asked, CallLink};
use crate::peer::{Asking, Notice, Outbound, Peer, PeerAnswer};
use crate::process::preview;
use crate::server_requests::ServerRequests;
use crate::unreadable::{id_of, is_answer, meant_id, odd_answers};
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

/// How many messages wait to be written before a server counts as busy.
pub const OUTGOING_BACKLOG: usize = 256;

/// How many calls that were given up are remembered.
const GIVEN_UP: usize = 256;

type Outcome = Result<Result<RawJson, RpcError>, UpstreamError>;

struct Pending {
    answer: oneshot::Sender<Outcome>,
    link: CallLink,
    asking: Asking,
    /// Whether it is a subscription: open for long, and no call.
    listens: bool,
}

/// Number of unsolicited or duplicate answers since the start, over all connections.
static UNSOLICITED: AtomicU64 = AtomicU64::new(0);

/// Number of unsolicited answers: unknown ids, and second answers.
pub fn unsolicited_answers() -> u64 {
    UNSOLICITED.load(Ordering::Relaxed)
}

/// What a text from a server was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// A message.
    Yes,
    /// Something else, which a server should not write there.
    No,
    /// One after which the transport has to end the connection; everyone who waited has been told.
    Last,
}

/// What all duplex transports share: who waits for which answer.
#[derive(Debug)]
pub struct DuplexPeer {
    server: String,
    outgoing: mpsc::Sender<Bytes>,
    notices: mpsc::Sender<Notice>,
    pending: Mutex<Waiting>,
    roots: Option<RawJson>,
    requests: ServerRequests,
    /// Unsolicited answers.
    unsolicited: AtomicU64,
    /// Whether the server has asked something in the middle of a call.
    has_asked: AtomicBool,
    closing: AtomicBool,
    on_close: Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>,
}

#[derive(Default)]
struct Waiting {
    calls: HashMap<u64, Pending>,
    /// The last calls that were given up; servers may answer them all the same.
    given_up: VecDeque<u64>,
    lost: Option<String>,
}

impl Waiting {
    /// The id of the only call under way; subscriptions do not count.
    fn only_call(&self) -> Option<u64> {
        let mut calls = self.calls.iter().filter(|(_, call)| !call.listens);
        calls.next().filter(|_| calls.next().is_none()).map(|(id, _)| *id)
    }

    fn give_up(&mut self, id: u64) {
        if self.given_up.len() >= GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back(id);
    }

    /// Whether an answer is that of a call which was given up. It counts once.
    fn was_given_up(&mut self, id: u64) -> bool {
        let at = self.given_up.iter().position(|given_up| *given_up == id);
        at.and_then(|at| self.given_up.remove(at)).is_some()
    }

    fn take_only_call(&mut self) -> Option<Pending> {
        self.only_call().and_then(|id| self.calls.remove(&id))
    }
}

/// Counts an unsolicited answer; the first one of a connection is logged.
pub(crate) fn note_unsolicited(server: &str, on_connection: &AtomicU64) {
    UNSOLICITED.fetch_add(1, Ordering::Relaxed);
    if on_connection.fetch_add(1, Ordering::Relaxed) == 0 {
        tracing::warn!(
            server.name = server,
            "server `{server}` sent an unsolicited answer; further ones are only counted"
        );
    }
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} waiting", self.calls.len())
    }
}

impl DuplexPeer {
    /// A peer that writes to `outgoing`; the transport calls [`receive`](Self::receive) with what
    /// comes and [`lost`](Self::lost) at the end. `on_close` asks the transport to end; it confirms.
    pub fn new(
        server: &str,
        outgoing: mpsc::Sender<Bytes>,
        notices: mpsc::Sender<Notice>,
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

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one message from the server, and says what it was.
    pub fn receive(self: &Arc<Self>, text: &Bytes) -> Taken {
        match Message::parse(text) {
            Ok(Message::Response(response)) => self.answered(response, text),
            Ok(Message::Notification(notification)) => self.noticed(notification),
            Ok(Message::Request(request)) => return self.asked(request),
            Err(unreadable) => {
                let what = preview(unreadable.error.message.as_bytes(), 200);
                let error = UpstreamError::BadAnswer { server: self.server.clone(), what };
                return match is_answer(text, &unreadable) {
                    true => self.fail_unreadable(id_of(text, &unreadable), error),
                    false => self.fail_odd(text, &error),
                };
            }
        }
        Taken::Yes
    }

    /// Takes an answer: it goes to the call with its id. If the id is that of a call in another spelling, the call
    /// fails.
    fn answered(&self, response: Response, text: &Bytes) {
        let Response { id, outcome } = response;
        if let Some(id) = id.as_ref().and_then(Id::as_number) {
            return self.settle(id, Ok(outcome));
        }
        if let Some(id) = meant_id(text) {
            let what = format!("an answer whose id is not the number {id} as it was sent");
            return self.settle(id, Err(UpstreamError::BadAnswer { server: self.server.clone(), what }));
        }
        // A server that could not read a request answers without its id.
        let pending = match id.is_none() && outcome.is_err() {
            true => self.waiting().take_only_call(),
            false => None,
        };
        match pending {
            Some(pending) => drop(pending.answer.send(Ok(outcome))),
            None => note_unsolicited(&self.server, &self.unsolicited),
        }
    }

    /// Tells the call with this id how it ended. If there is none, the answer is counted.
    fn settle(&self, id: u64, outcome: Outcome) {
        let (pending, was_given_up) = {
            let mut waiting = self.waiting();
            let pending = waiting.calls.remove(&id);
            let was_given_up = pending.is_none() && waiting.was_given_up(id);
            (pending, was_given_up)
        };
        match pending {
            Some(pending) => drop(pending.answer.send(outcome)),
            None if was_given_up => {}
            None => note_unsolicited(&self.server, &self.unsolicited),
        }
    }

    /// Fails the calls whose answers came without `jsonrpc` or inside a batch. An answer to no call that waits is only
    /// counted: it may also be a line of a log.
    fn fail_odd(&self, text: &Bytes, error: &UpstreamError) -> Taken {
        let mut taken = Taken::No;
        for id in odd_answers(text) {
            match id.filter(|id| self.waiting().calls.contains_key(id)) {
                Some(id) => {
                    self.settle(id, Err(error.clone()));
                    taken = Taken::Yes;
                }
                None => note_unsolicited(&self.server, &self.unsolicited),
            }
        }
        if taken == Taken::No {
            self.stray("a line that is no message");
        }
        taken
    }

    /// Fails an answer over the limit; without its id, by the rule for all unreadable answers.
    pub fn oversized(&self, id: Option<u64>, limit: usize) -> Taken {
        self.fail_unreadable(id, UpstreamError::TooLarge { server: self.server.clone(), limit })
    }

    /// Whether an answer could only be that of one call.
    pub(crate) fn has_only_one_call(&self) -> bool {
        self.waiting().only_call().is_some()
    }

    /// Tells the caller of an answer that came and cannot be read. If its call is unknown and several wait,
    /// all are told and the connection ends: one of them would wait in vain.
    fn fail_unreadable(&self, id: Option<u64>, error: UpstreamError) -> Taken {
        let mut waiting = self.waiting();
        let pending = match id.and_then(|id| waiting.calls.remove(&id)) {
            Some(pending) => Some(pending),
            None => waiting.take_only_call(),
        };
        if let Some(pending) = pending {
            drop(waiting);
            let _ = pending.answer.send(Err(error));
            return Taken::Yes;
        }
        let has_calls = waiting.calls.values().any(|call| !call.listens);
        drop(waiting);
        if !has_calls {
            self.stray("an unreadable answer to nothing we asked");
            return Taken::No;
        }
        let reason = format!("it sent an answer that cannot be read, and several calls waited: {error}");
        self.cut(&reason, &error);
        self.notice_end(Notice::Closed(reason));
        Taken::Last
    }

    /// Gives the connection up: everyone waiting is told why.
    fn cut(&self, reason: &str, error: &UpstreamError) {
        tracing::warn!(server.name = %self.server, "server `{}` is disconnected: {reason}", self.server);
        for pending in self.take_all(reason) {
            let _ = pending.answer.send(Err(error.clone()));
        }
    }

    /// Tells the supervisor, unless the end was the gateway's wish.
    fn notice_end(&self, notice: Notice) {
        if !self.closing.load(Ordering::Relaxed) {
            notice.pass_on(&self.notices);
        }
    }

    /// Marks the channel as gone and gives those who wait. The first reason stays.
    fn take_all(&self, reason: &str) -> Vec<Pending> {
        let mut waiting = self.waiting();
        waiting.lost.get_or_insert_with(|| reason.to_owned());
        std::mem::take(&mut waiting.calls).into_values().collect()
    }

    /// The channel is gone: everyone waiting is told at once.
    pub fn lost(&self, reason: &str) {
        let known = self.waiting().lost.is_some();
        for pending in self.take_all(reason) {
            let error = UpstreamError::Lost {
                server: self.server.clone(),
                reason: reason.to_owned(),
                sent: Sent::Maybe,
            };
            let _ = pending.answer.send(Err(error));
        }
        if !known {
            self.notice_end(Notice::Closed(reason.to_owned()));
        }
    }

    fn stray(&self, what: &str) {
        tracing::debug!(server.name = %self.server, "server `{}` sent {what}", self.server);
    }

    fn noticed(&self, notification: Notification) {
        let Notification { method, params } = notification;
        match (method.as_str(), params) {
            ("notifications/progress", Some(params)) => {
                let token =
                    params.member("progressToken").and_then(|token| token.as_str().parse::<u64>().ok());
                let link = token.and_then(|id| self.waiting().calls.get(&id).map(|call| call.link.clone()));
                match link {
                    Some(link) => link.progress(params),
                    None => self.stray("progress of nothing we asked"),
                }
            }
            ("notifications/message", Some(params)) => {
                // Only a call that is alone on the channel can be told apart.
                let link = {
                    let waiting = self.waiting();
                    let mut calls = waiting.calls.values().filter(|call| !call.listens);
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
                    let asked = waiting.calls.values().filter(|call| call.asking == Asking::Allowed);
                    asked.map(|call| call.link.clone()).collect()
                };
                links.iter().for_each(|link| link.elicited(params.clone()));
            }
            ("notifications/resources/updated", Some(params)) => {
                Notice::ResourceUpdated(params).pass_on(&self.notices);
            }
            (method, _) if method.ends_with("/list_changed") => {
                Notice::ListChanged(method.to_owned()).pass_on(&self.notices);
            }
            _ => {}
        }
    }

    /// The call that a question of the server belongs to. A call whose client cannot be asked may have caused
    /// it as well as one whose client can: beside it no question is anybody's, as it may be a foreign one.
    fn cause(&self) -> Option<CallLink> {
        let waiting = self.waiting();
        let mut calls = waiting.calls.values().filter(|call| call.asking != Asking::No);
        let first = calls.next()?;
        self.has_asked.store(true, Ordering::Relaxed);
        let alone = calls.next().is_none();
        (alone && first.asking == Asking::Allowed).then(|| first.link.clone())
    }

    fn asked(self: &Arc<Self>, request: Request) -> Taken {
        let admitted = match self.requests.admit(&request) {
            Ok(admitted) => admitted,
            Err(flood) => {
                let reason = flood.to_string();
                let error = UpstreamError::Flooded { server: self.server.clone(), reason: reason.clone() };
                self.cut(&reason, &error);
                self.notice_end(Notice::Flooded(reason));
                return Taken::Last;
            }
        };
        let Request { id, method, params } = request;
        let link = if method == "ping" { None } else { self.cause() };
        let peer = self.clone();
        // Put before anything else is read, so that questions keep their order.
        let answer = match (method.as_str(), link, &self.roots) {
            ("ping", _, _) => Answering::Ready(Ok(RawJson::empty_object())),
            ("elicitation/create" | "sampling/createMessage" | "roots/list", Some(link), _) => {
                Answering::Asked(link.question_of(&self.server, &method, params))
            }
            ("roots/list", None, Some(roots)) => Answering::Ready(Ok(roots.clone())),
            _ => Answering::unknown(&method),
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
        Taken::Yes
    }
}

/// An answer to a server's question: known at once, or the client's to give.
pub(crate) enum Answering {
    Ready(Result<RawJson, RpcError>),
    Asked(Asked),
}

impl Answering {
    /// The answer to a method that the gateway does not have.
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

/// Forgets a call whose caller went away, and tells the server.
struct CancelOnDrop<'a> {
    peer: &'a DuplexPeer,
    id: u64,
    armed: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let waited = {
            let mut waiting = self.peer.waiting();
            let waited = waiting.calls.remove(&self.id).is_some();
            if waited {
                waiting.give_up(self.id);
            }
            waited
        };
        if waited && self.armed {
            let mut params = ObjectWriter::default();
            params.raw("requestId", &RawJson::trusted(self.id.to_string()));
            params.text("reason", "the caller went away");
            let text = write_notification("notifications/cancelled", Some(&params.finish()));
            let _ = self.peer.outgoing.try_send(text);
        }
    }
}

#[async_trait]
impl Peer for Arc<DuplexPeer> {
    async fn request(&self, outbound: Outbound, link: &CallLink) -> Result<PeerAnswer, UpstreamError> {
        let (answer, outcome) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if let Some(reason) = &waiting.lost {
                return Err(UpstreamError::Lost {
                    server: self.server.clone(),
                    reason: reason.clone(),
                    sent: Sent::No,
                });
            }
            let listens = outbound.method == "subscriptions/listen";
            let pending = Pending { answer, link: link.clone(), asking: outbound.asking, listens };
            waiting.calls.insert(outbound.id, pending);
        }
        // The first words of a connection have no cancelling.
        let armed = !matches!(outbound.method, "initialize" | "server/discover");
        let mut guard = CancelOnDrop { peer: self, id: outbound.id, armed };
        let text = outbound.text;
        if let Err(refused) = self.outgoing.try_send(text) {
            self.waiting().calls.remove(&outbound.id);
            return Err(match refused {
                mpsc::error::TrySendError::Full(_) => UpstreamError::Busy { server: self.server.clone() },
                mpsc::error::TrySendError::Closed(_) => UpstreamError::Lost {
                    server: self.server.clone(),
                    reason: "the connection is closed".into(),
                    sent: Sent::No,
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
                sent: Sent::Maybe,
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
