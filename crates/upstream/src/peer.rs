//! One server at the other end of a transport.

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

/// A request on its way to a server.
#[derive(Debug, Clone)]
pub struct Outbound {
    /// Its id, also the token of its progress.
    pub id: u64,
    /// Its method.
    pub method: &'static str,
    /// The whole message, as it is sent.
    pub text: Bytes,
    /// What `Mcp-Name` mirrors, as the header has it.
    pub name: Option<HeaderValue>,
    /// Mirrored arguments and forwarded headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether a long result may stay in pieces.
    pub reading: Reading,
    /// Whether the server may ask this call's client something.
    pub asking: Asking,
}

/// Whether a result is copied into one text. All of it is always read before any of it is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Always.
    Whole,
    /// Not if it is long and plain: then it may stay in the pieces it came in.
    InPieces,
}

/// Whether questions of the server go to this call's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// The server was told of a capability to ask: its questions are this call's.
    Allowed,
    /// The server was told of one, but this call's client cannot be asked: questions of this call are refused.
    Refused,
    /// The server was told of none, or the request is the gateway's own.
    No,
}

/// An answer.
#[derive(Debug)]
pub enum PeerAnswer {
    /// The result or the server's error.
    Whole(Result<RawJson, RpcError>),
    /// A long, finished result that was proven plain to its last byte.
    Long(LongResult),
}

/// Something a server said that belongs to no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A list changed: the notification's method.
    ListChanged(String),
    /// Changes may have been missed: nobody heard for a while.
    Missed,
    /// A resource changed: the notification's parameters.
    ResourceUpdated(RawJson),
    /// The connection is gone.
    Closed(String),
    /// The connection was cut, as the server asked without end.
    Flooded(String),
}

impl Notice {
    /// Passes it on without waiting. Where notices pile up, those that others stand for are left out: updates may take
    /// half of the places, so a change that finds three quarters taken knows that one waits before it, which says to
    /// look again as well. The last places are for ends of connections.
    pub(crate) fn pass_on(self, to: &mpsc::Sender<Self>) {
        let left_to_others = match self {
            Self::ResourceUpdated(_) => to.max_capacity() / 2,
            Self::ListChanged(_) | Self::Missed => to.max_capacity() / 4,
            Self::Closed(_) | Self::Flooded(_) => 0,
        };
        if to.capacity() > left_to_others {
            let _ = to.try_send(self);
        }
    }
}

/// A server reached over some transport. Dropping the future of a request cancels it, and the
/// server is told.
#[async_trait]
pub trait Peer: Send + Sync + fmt::Debug {
    /// Sends a request and waits for its answer.
    async fn request(&self, outbound: Outbound, link: &CallLink) -> Result<PeerAnswer, UpstreamError>;

    /// Sends a notification.
    async fn notify(&self, method: &'static str, params: Option<RawJson>) -> Result<(), UpstreamError>;

    /// Says which era and revision were agreed on, once the handshake is done.
    fn agreed(&self, era: Era, revision: Revision);

    /// Whether the server has asked something in the middle of a call.
    fn has_asked(&self) -> bool {
        false
    }

    /// Whether the server may keep state of this connection's user.
    fn has_session(&self) -> bool {
        true
    }

    /// Whether the connection is gone.
    fn is_lost(&self) -> bool {
        false
    }

    /// Opens what carries the server's notices, where the transport has a channel of its own for it.
    fn listen(&self) {}

    /// Waits a moment for that, before the server's lists are read.
    async fn listening(&self) {}

    /// Ends the connection; for a child process, ends its whole tree.
    async fn close(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_keep_no_change_and_no_end_from_being_heard() {
        let (to, mut heard) = mpsc::channel(16);
        let update = || Notice::ResourceUpdated(RawJson::from_value("x://y"));
        let changed = || Notice::ListChanged("notifications/tools/list_changed".to_owned());
        (0..100).for_each(|_| update().pass_on(&to));
        (0..100).for_each(|_| changed().pass_on(&to));
        (0..100).for_each(|_| Notice::Missed.pass_on(&to));
        Notice::Closed("gone".to_owned()).pass_on(&to);
        let heard: Vec<Notice> = std::iter::from_fn(|| heard.try_recv().ok()).collect();
        let expected = [vec![update(); 8], vec![changed(); 4], vec![Notice::Closed("gone".to_owned())]];
        assert_eq!(heard, expected.concat());
    }
}
