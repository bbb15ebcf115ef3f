//! The link between a call under way and its client: progress, log messages and questions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{mpsc, oneshot};
use toolbooth_core::json::RawJson;
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::{INTERNAL_ERROR, METHOD_NOT_FOUND};

/// How many events wait for a slow client before progress is dropped.
const BACKLOG: usize = 64;

/// Something a server said or asked during a call.
#[derive(Debug)]
pub enum LinkEvent {
    /// Progress: the parameters of the notification, under the server's token.
    Progress(RawJson),
    /// A log message: the parameters of the notification.
    Log(RawJson),
    /// A question to the client.
    Question(Question),
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
    events: mpsc::Sender<LinkEvent>,
    signs: Arc<Signs>,
}

/// Signs of life that put a deadline off.
#[derive(Debug, Default)]
struct Signs {
    progress: AtomicU32,
    questions: AtomicU32,
}

/// Counts a question as open for as long as it lives.
struct OpenQuestion<'a>(&'a Signs);

impl<'a> OpenQuestion<'a> {
    fn new(signs: &'a Signs) -> Self {
        signs.questions.fetch_add(1, Ordering::Relaxed);
        Self(signs)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.questions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CallLink {
    /// A link, and the client's side of it.
    pub fn new() -> (Self, mpsc::Receiver<LinkEvent>) {
        let (events, receiver) = mpsc::channel(BACKLOG);
        (Self { events, signs: Arc::default() }, receiver)
    }

    /// How much progress there has been.
    pub fn progress_seen(&self) -> u32 {
        self.signs.progress.load(Ordering::Relaxed)
    }

    /// Whether the client has been asked something and has not answered yet.
    pub fn waits_for_client(&self) -> bool {
        self.signs.questions.load(Ordering::Relaxed) > 0
    }

    /// A link nobody listens to: for the gateway's own requests.
    pub fn silent() -> Self {
        Self::new().0
    }

    /// Passes progress on. A client that does not keep up loses progress, never the result.
    pub fn progress(&self, params: RawJson) {
        self.signs.progress.fetch_add(1, Ordering::Relaxed);
        let _ = self.events.try_send(LinkEvent::Progress(params));
    }

    /// Passes a log message on, likewise.
    pub fn log(&self, params: RawJson) {
        let _ = self.events.try_send(LinkEvent::Log(params));
    }

    /// Asks the client and waits for the answer.
    pub async fn ask(&self, method: &str, params: Option<RawJson>) -> Result<RawJson, RpcError> {
        let _open = OpenQuestion::new(&self.signs);
        let (reply, answer) = oneshot::channel();
        let question = Question { method: method.to_owned(), params, reply };
        if self.events.send(LinkEvent::Question(question)).await.is_err() {
            return Err(RpcError::new(METHOD_NOT_FOUND, format!("nobody is there to answer {method}")));
        }
        answer.await.unwrap_or_else(|_| Err(RpcError::new(INTERNAL_ERROR, "the client went away")))
    }
}
