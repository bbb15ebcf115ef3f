//! Messages between the gateways on a shared store, and the number of gateways.
//!
//! A message is a row that its recipient deletes; a notice of the database wakes the recipient. Without a shared store
//! there is no other gateway, and nothing is sent.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::json::RawJson;
use toolbooth_store::Store;
use uuid::Uuid;

/// How often a gateway that should answer is checked for being alive.
const LIFE_CHECK: Duration = Duration::from_secs(2);
/// The number of hex digits at the end of a gateway's id that mark its questions.
const MARK_DIGITS: usize = 5;
/// The bits of a question's number below its mark. With it, numbers stay below 2^53, so that every client reads them exactly.
const NUMBER_BITS: u32 = 32;

/// A message from one gateway to another.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaMessage {
    /// The answer of a legacy client to a question that the recipient asked.
    Answer {
        /// The client's session.
        session: String,
        /// The number of the question.
        question: u64,
        /// The answer.
        outcome: MailedOutcome,
    },
    /// A legacy client has cancelled a request, which may run at the recipient.
    Cancel {
        /// The client's session.
        session: String,
        /// The id of the request, as JSON.
        request: RawJson,
    },
    /// A client has answered the questions of a call that is parked at the recipient.
    Resume(Box<ResumeRequest>),
    /// The answer to a `Resume`.
    Resumed {
        /// The ticket of the request.
        ticket: Uuid,
        /// The answer for the client.
        outcome: MailedOutcome,
    },
    /// Events of the sender.
    Events {
        /// The events, as JSON.
        events: Vec<RawJson>,
        /// The number of events that were left out.
        missed: u64,
    },
}

/// A result or an error of JSON-RPC.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailedOutcome {
    /// A result.
    Result(RawJson),
    /// An error.
    Error {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
        /// Its data.
        data: Option<RawJson>,
    },
}

/// Asks the gateway that has a parked call to continue it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ResumeRequest {
    /// The gateway that waits for the answer.
    pub reply_to: String,
    /// Identifies the answer.
    pub ticket: Uuid,
    /// The handle of the parked call.
    pub handle: String,
    /// The user of the call.
    pub user: String,
    /// The revision of the client.
    pub revision: String,
    /// The client's `clientInfo`.
    pub info: Option<RawJson>,
    /// The client's capabilities.
    pub capabilities: RawJson,
    /// The method of the request.
    pub method: String,
    /// The name of the tool or prompt, or the URI.
    pub name: String,
    /// The arguments of the request.
    pub arguments: Option<RawJson>,
    /// The client's answers, by the keys of the questions.
    pub answers: Option<RawJson>,
}

/// Why another gateway did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoReply {
    /// It has ended.
    #[error("the gateway that asked this question has ended, and the call with it; its outcome is unknown")]
    Ended,
    /// The store cannot be used.
    #[error("the answer could not be passed to the gateway that asked the question")]
    Store,
}

impl Fault for NoReply {
    fn code(&self) -> &'static str {
        match self {
            Self::Ended => "call.gateway-ended",
            Self::Store => "call.gateway-unreachable",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Ended => "check whether the call had an effect, then make it again".into(),
            Self::Store => "the store cannot be used at the moment; `GET /ready` tells when it can".into(),
        })
    }
}

/// Sends messages to the other gateways, and counts the gateways.
pub struct ReplicaMail {
    store: Arc<dyn Store>,
    clock: Arc<Clock>,
    live: AtomicUsize,
    awaited: Mutex<HashMap<Uuid, oneshot::Sender<MailedOutcome>>>,
}

impl std::fmt::Debug for ReplicaMail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplicaMail").field("live", &self.live).finish_non_exhaustive()
    }
}

impl ReplicaMail {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<Clock>) -> Self {
        Self { store, clock, live: AtomicUsize::new(1), awaited: Mutex::default() }
    }

    fn awaited(&self) -> MutexGuard<'_, HashMap<Uuid, oneshot::Sender<MailedOutcome>>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of this gateway.
    pub fn own_id(&self) -> &str {
        self.store.replica()
    }

    /// The number of running gateways on the store, as last counted; at least 1.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed).max(1)
    }

    /// Counts the running gateways, and returns their number.
    pub(crate) async fn count(&self) -> usize {
        match self.store.live_replicas().await {
            Ok(ids) => self.live.store(ids.len().max(1), Ordering::Relaxed),
            // Kept as it was: the store reports its own failures.
            Err(error) => tracing::debug!("the gateways could not be counted: {error}"),
        }
        self.live()
    }

    /// The number of the first question in a session: other gateways see from it who asked. `None` without other gateways.
    pub fn first_question(&self) -> Option<u64> {
        if !self.store.is_shared() {
            return None;
        }
        let id = self.own_id();
        let mark = u64::from_str_radix(id.get(id.len().checked_sub(MARK_DIGITS)?..)?, 16).ok()?;
        Some((mark << NUMBER_BITS) | 1)
    }

    /// The end of the id of the gateway that asked a question; `None` if it was this one, or the number is not a
    /// gateway's.
    pub fn asker_of(&self, question: u64) -> Option<String> {
        let mark = format!("{:05x}", question >> NUMBER_BITS);
        let is_other = mark.len() == MARK_DIGITS && !self.own_id().ends_with(&mark);
        (self.store.is_shared() && is_other).then_some(mark)
    }

    /// Sends a message to the gateways whose id ends with `to`; to all others if it is empty. Returns their number.
    pub async fn send(&self, to: &str, message: &ReplicaMessage) -> Result<u64, NoReply> {
        let body = serde_json::to_string(message).map_err(|_| NoReply::Store)?;
        let sent = self.store.send_mail(to, body, self.clock.now_ms()).await;
        sent.map_err(|error| {
            tracing::warn!("a message to another gateway could not be sent: {error}");
            NoReply::Store
        })
    }

    /// Removes and returns the oldest messages to this gateway; `None` if there are none. A few at a time, because
    /// messages can be large.
    pub async fn take(&self) -> Option<Vec<ReplicaMessage>> {
        let taken = self.store.take_mail().await.unwrap_or_else(|error| {
            tracing::warn!("the messages of other gateways could not be read: {error}");
            Vec::new()
        });
        // A newer gateway may send messages that this one does not know.
        let read = || taken.iter().filter_map(|body| serde_json::from_str(body).ok()).collect();
        (!taken.is_empty()).then(read)
    }

    /// Asks another gateway to continue a parked call, and waits for its answer.
    pub async fn resume(&self, to: &str, request: ResumeRequest) -> Result<MailedOutcome, NoReply> {
        let (sender, mut answer) = oneshot::channel();
        let ticket = request.ticket;
        self.awaited().insert(ticket, sender);
        let _forget = AwaitedTicket { mail: self, ticket };
        if self.send(to, &ReplicaMessage::Resume(Box::new(request))).await? == 0 {
            return Err(NoReply::Ended);
        }
        loop {
            match tokio::time::timeout(LIFE_CHECK, &mut answer).await {
                Ok(answered) => return answered.map_err(|_| NoReply::Ended),
                Err(_) => {
                    let live = self.store.live_replicas().await;
                    if live.is_ok_and(|live| !live.iter().any(|id| id == to)) {
                        return Err(NoReply::Ended);
                    }
                }
            }
        }
    }

    /// Delivers the answer to a `Resume`.
    pub fn resumed(&self, ticket: Uuid, outcome: MailedOutcome) {
        if let Some(awaiting) = self.awaited().remove(&ticket) {
            let _ = awaiting.send(outcome);
        }
    }
}

/// A request that waits for another gateway; forgotten when it stops waiting.
struct AwaitedTicket<'a> {
    mail: &'a ReplicaMail,
    ticket: Uuid,
}

impl Drop for AwaitedTicket<'_> {
    fn drop(&mut self) {
        self.mail.awaited().remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system_clock;
    use toolbooth_store::StoreUrl;

    #[tokio::test]
    async fn a_single_gateway_marks_no_questions_and_sends_nothing() {
        let store = toolbooth_store::open(&StoreUrl::Memory).await.expect("a store");
        let mail = ReplicaMail::new(store, system_clock());
        assert_eq!((mail.first_question(), mail.asker_of(7 << 40), mail.live()), (None, None, 1));
        let cancel = ReplicaMessage::Cancel { session: "s".into(), request: RawJson::trusted("1") };
        assert_eq!(mail.send("", &cancel).await, Ok(0));
        assert!(mail.take().await.is_none());
    }

    #[test]
    fn a_message_is_read_back() {
        let outcome = MailedOutcome::Result(RawJson::trusted(r#"{"a":"b"}"#));
        let sent = ReplicaMessage::Answer { session: "s".into(), question: 5, outcome };
        let text = serde_json::to_string(&sent).expect("JSON");
        let read: ReplicaMessage = serde_json::from_str(&text).expect("read back");
        let ReplicaMessage::Answer { question: 5, outcome: MailedOutcome::Result(result), .. } = read else {
            panic!("{text}");
        };
        assert_eq!(result.as_str(), r#"{"a":"b"}"#);
    }
}
