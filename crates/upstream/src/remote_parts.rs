//! Parameters for opening a duplex channel to a remote server: HTTP+SSE or WebSocket.

use crate::http::{HttpOrigin, ServerCredential};
use crate::peer::ServerNotice;
use ::http::{HeaderName, HeaderValue};
use std::time::Duration;
use tokio::sync::mpsc;
use toolbooth_core::json::RawJson;

/// Parameters for opening a duplex channel to a remote server.
#[derive(Debug)]
pub struct RemoteParts {
    /// The server's name in messages.
    pub server: String,
    /// The origin of the event stream or the WebSocket.
    pub origin: HttpOrigin,
    /// Configured headers, sent with every request and handshake.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The gateway's own credential.
    pub credential: ServerCredential,
    /// Receives the server's notices.
    pub notices: mpsc::Sender<ServerNotice>,
    /// The answer to `roots/list` outside a call.
    pub roots: Option<RawJson>,
    /// Maximum message size.
    pub message_limit: usize,
    /// Timeout until the server has named its endpoint (HTTP+SSE), or of the handshake (WebSocket).
    pub connect_timeout: Duration,
}
