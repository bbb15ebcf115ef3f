//! The gateway's messages to an HTTP+SSE server, each as a POST, in the order they were written.

use super::head;
use crate::auth_refusals::AuthRefusals;
use crate::duplex::DuplexPeer;
use crate::http::{OriginClient, SendError, ServerCredential};
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

/// How long a message waits for the previous one to be accepted. Some servers accept a call only when it is
/// finished; then the answer to their question, or a cancellation, has to overtake it.
const ACCEPT_WAIT: Duration = Duration::from_millis(250);
/// Maximum number of POSTs in flight.
const MAX_IN_FLIGHT: usize = 64;
/// How much of a POST response is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Sends messages by POST.
#[derive(Debug)]
pub(super) struct Posts {
    pub(super) server: String,
    /// The HTTP client for the endpoint.
    pub(super) client: Arc<OriginClient>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) credential: ServerCredential,
    pub(super) peer: Weak<DuplexPeer>,
}

/// Why no more messages can be sent.
type StopReason = String;

impl Posts {
    /// Sends queued messages until no more can be sent, and returns why.
    pub(super) async fn write(&self, mut queue: mpsc::Receiver<Bytes>) -> StopReason {
        let mut in_flight: FuturesUnordered<BoxFuture<'_, Result<(), StopReason>>> = FuturesUnordered::new();
        loop {
            let message = tokio::select! {
                Some(done) = in_flight.next() => match done {
                    Ok(()) => continue,
                    Err(end) => return end,
                },
                message = queue.recv(), if in_flight.len() < MAX_IN_FLIGHT => message,
            };
            let Some(message) = message else { return "the connection is no longer in use".into() };
            let mut post: BoxFuture<'_, _> = Box::pin(self.post(message));
            match tokio::time::timeout(ACCEPT_WAIT, &mut post).await {
                Ok(Ok(())) => {}
                Ok(Err(end)) => return end,
                Err(_) => in_flight.push(post),
            }
        }
    }

    /// Sends one message. If the server refuses it, the call that waits for its answer fails.
    async fn post(&self, message: Bytes) -> Result<(), StopReason> {
        let mut refusals = AuthRefusals::default();
        let (response, connection) = loop {
            let origin = self.client.origin();
            let mut request = head(Method::POST, origin, &self.headers).map(|()| Full::new(message.clone()));
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            self.credential.apply(request.headers_mut()).await;
            let (response, connection) =
                self.client.send(request).await.map_err(|failure| match failure {
                    SendError::NotSent(reason) => format!("a message could not be sent: {reason}"),
                    SendError::Broken(reason) => {
                        format!("the connection broke while a message was sent: {reason}")
                    }
                })?;
            let status = response.status();
            if !AuthRefusals::is_one(status) {
                break (response, connection);
            }
            // A reconnect meets the same refusal and reports it as such.
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
            return Err(format!("it ended the session (HTTP {status})"));
        }
        self.refused(&message, status, body.unwrap_or_default());
        Ok(())
    }

    /// Answers a refused request with the server's error or one of the gateway's, so that its call does not
    /// wait until the deadline.
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
