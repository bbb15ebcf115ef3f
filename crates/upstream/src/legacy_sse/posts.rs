//! Our messages to an HTTP+SSE server, each a POST, in the order they were written.

use super::head;
use crate::duplex::DuplexPeer;
use crate::http::{Client, Credential, Failure};
use crate::refusal::Refusals;
use ::http::header::CONTENT_TYPE;
use ::http::{HeaderName, HeaderValue, Method, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use http_body_util::{BodyExt, Full, Limited};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use toolbooth_wire::codes::UPSTREAM_FAILED;
use toolbooth_wire::envelope::write_error;
use toolbooth_wire::{Message, RpcError};

/// How long a message waits for the one before it to be accepted. Some servers accept a call only when it is
/// done; then the answer to their question, or a cancellation, has to overtake it.
const TURN: Duration = Duration::from_millis(250);
/// How many messages may wait to be accepted.
const MAX_UNDER_WAY: usize = 64;
/// How much of what a POST is answered with is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Sends messages.
#[derive(Debug)]
pub(super) struct Posts {
    pub(super) server: String,
    /// Connections to where messages go.
    pub(super) client: Arc<Client>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) credential: Credential,
    pub(super) peer: Weak<DuplexPeer>,
}

/// Why no more messages can be sent.
type End = String;

impl Posts {
    /// Sends what is queued until nothing more can be sent; says why.
    pub(super) async fn write(&self, mut queue: mpsc::Receiver<Bytes>) -> End {
        let mut under_way: FuturesUnordered<BoxFuture<'_, Result<(), End>>> = FuturesUnordered::new();
        loop {
            let message = tokio::select! {
                Some(done) = under_way.next() => match done {
                    Ok(()) => continue,
                    Err(end) => return end,
                },
                message = queue.recv(), if under_way.len() < MAX_UNDER_WAY => message,
            };
            let Some(message) = message else { return "nobody listens any more".into() };
            let mut post: BoxFuture<'_, _> = Box::pin(self.post(message));
            match tokio::time::timeout(TURN, &mut post).await {
                Ok(Ok(())) => {}
                Ok(Err(end)) => return end,
                Err(_) => under_way.push(post),
            }
        }
    }

    /// Sends one message. A refusal of this one is told to whoever waits for its answer.
    async fn post(&self, message: Bytes) -> Result<(), End> {
        let mut refusals = Refusals::default();
        let (response, connection) = loop {
            let origin = self.client.origin();
            let mut request = head(Method::POST, origin, &self.headers).map(|()| Full::new(message.clone()));
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            self.credential.apply(request.headers_mut()).await;
            let (response, connection) =
                self.client.send(request).await.map_err(|failure| match failure {
                    Failure::NotSent(reason) => format!("a message could not be sent: {reason}"),
                    Failure::Broken(reason) => format!("the connection broke under a message: {reason}"),
                })?;
            let status = response.status();
            if !Refusals::is_one(status) {
                break (response, connection);
            }
            // Connecting anew meets the same refusal, and that one is shown as what it is.
            let answered = refusals.answer(&self.server, &self.credential, status, response.headers()).await;
            answered.map_err(|error| error.to_string())?;
        };
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map(|body| body.to_bytes());
        if body.is_ok() {
            connection.give_back();
        }
        if status.is_success() {
            return Ok(());
        }
        if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
            return Err(format!("it has forgotten our session (HTTP {status})"));
        }
        self.refused(&message, status, body.unwrap_or_default());
        Ok(())
    }

    /// Nobody waits in vain: a refused request is answered with the server's error, or one of ours.
    fn refused(&self, message: &Bytes, status: StatusCode, body: Bytes) {
        tracing::debug!(server.name = %self.server, "server `{}` refused a message: HTTP {status}", self.server);
        let (Ok(Message::Request(request)), Some(peer)) = (Message::parse(message), self.peer.upgrade())
        else {
            return;
        };
        match Message::parse(&body) {
            Ok(Message::Response(response)) if response.id.as_ref() == Some(&request.id) => {
                peer.receive(&body);
            }
            _ => {
                let error =
                    RpcError::new(UPSTREAM_FAILED, format!("the server refused the message: HTTP {status}"));
                peer.receive(&write_error(Some(&request.id), &error));
            }
        }
    }
}
