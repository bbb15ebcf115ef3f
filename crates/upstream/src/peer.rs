//! The transport interface: one server at the other end of a transport.

use crate::error::UpstreamError;
use crate::link::CallLink;
use ::http::{HeaderName, HeaderValue};
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;
use tokio::sync::mpsc;
use toolbooth_core::json::RawJson;
use toolbooth_wire::long::LongResult;
use toolbooth_wire::{Era, Revision, RpcError};

/// An encoded request to a server.
#[derive(Debug, Clone)]
pub struct EncodedRequest {
    /// The request id, also used as the progress token.
    pub id: u64,
    /// The method.
    pub method: &'static str,
    /// The complete message.
    pub text: Bytes,
    /// The value of the `Mcp-Name` header.
    pub name: Option<HeaderValue>,
    /// Mirrored arguments and forwarded headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether a long result may stay in chunks.
    pub reading: ResultReading,
    /// Whether the server may ask this call's client questions.
    pub question_policy: QuestionPolicy,
}

/// Whether a result is copied into one buffer. In both cases all of it is read before any of it is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultReading {
    /// Always copied.
    Whole,
    /// A long, plain result may stay in the chunks it was received in.
    InPieces,
}

/// Whether questions of the server go to this call's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionPolicy {
    /// The handshake or request allows the server to ask; its questions belong to this call.
    Allowed,
    /// The server may ask on this connection, but this call's client cannot answer: questions of this call are
    /// refused.
    Refused,
    /// The handshake or request does not allow the server to ask, or the request is the gateway's own.
    No,
}

/// The answer to a request.
#[derive(Debug)]
pub enum PeerAnswer {
    /// The result, or the server's error.
    Whole(Result<RawJson, RpcError>),
    /// A long, complete result that was verified as plain to its last byte.
    Long(LongResult),
}

/// A notice from a server that does not belong to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerNotice {
    /// A list changed; holds the notification's method.
    ListChanged(String),
    /// Changes may have been missed while the stream was not open.
    Missed,
    /// A resource changed; holds the notification's parameters.
    ResourceUpdated(RawJson),
    /// The connection was lost.
    Closed(String),
    /// The connection was closed because the server sent too many requests.
    Flooded(String),
}

impl ServerNotice {
    /// Queues the notice without waiting and drops it if the queue is too full. Resource updates may fill
    /// half of the queue and list changes three quarters, so a dropped list change always has one queued
    /// before it that triggers the same refresh. The rest is reserved for ends of connections.
    pub(crate) fn pass_on(self, to: &mpsc::Sender<Self>) {
        let reserved = match self {
            Self::ResourceUpdated(_) => to.max_capacity() / 2,
            Self::ListChanged(_) | Self::Missed => to.max_capacity() / 4,
            Self::Closed(_) | Self::Flooded(_) => 0,
        };
        if to.capacity() > reserved {
            let _ = to.try_send(self);
        }
    }
}

/// A server reached over some transport. Dropping the future of a request cancels it on the server.
#[async_trait]
pub trait Peer: Send + Sync + fmt::Debug {
    /// Sends a request and waits for its answer.
    async fn request(&self, outbound: EncodedRequest, link: &CallLink) -> Result<PeerAnswer, UpstreamError>;

    /// Sends a notification.
    async fn notify(&self, method: &'static str, params: Option<RawJson>) -> Result<(), UpstreamError>;

    /// Sets the negotiated era and revision after the handshake.
    fn agreed(&self, era: Era, revision: Revision);

    /// Whether the server has sent a question during a call.
    fn has_asked(&self) -> bool {
        false
    }

    /// Whether the server may keep per-session state.
    fn has_session(&self) -> bool {
        true
    }

    /// Whether the connection is lost.
    fn is_lost(&self) -> bool {
        false
    }

    /// Opens the stream for the server's notices, if the transport has a separate one.
    fn listen(&self) {}

    /// Waits briefly for that stream before the lists are read.
    async fn wait_for_stream(&self) {}

    /// Closes the connection and, for a child process, ends its whole process tree.
    async fn close(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_updates_never_displace_list_changes_or_ends() {
        let (to, mut queue) = mpsc::channel(16);
        let update = || ServerNotice::ResourceUpdated(RawJson::from_value("x://y"));
        let changed = || ServerNotice::ListChanged("notifications/tools/list_changed".to_owned());
        (0..100).for_each(|_| update().pass_on(&to));
        (0..100).for_each(|_| changed().pass_on(&to));
        (0..100).for_each(|_| ServerNotice::Missed.pass_on(&to));
        ServerNotice::Closed("gone".to_owned()).pass_on(&to);
        let queued: Vec<ServerNotice> = std::iter::from_fn(|| queue.try_recv().ok()).collect();
        let expected = [vec![update(); 8], vec![changed(); 4], vec![ServerNotice::Closed("gone".to_owned())]];
        assert_eq!(queued, expected.concat());
    }
}
