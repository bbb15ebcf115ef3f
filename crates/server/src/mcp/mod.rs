//! The MCP endpoint in both eras of the protocol, over HTTP and over a local socket.

mod batch;
pub mod cancel;
pub mod change_stream;
pub mod client;
pub mod client_calls;
mod client_roots;
pub mod folder_servers;
pub mod http;
mod immediate_reply;
mod legacy_tasks;
pub mod lines;
mod long;
pub mod methods;
mod moved_session;
mod other_gateways;
mod responses;
mod rights_source;
pub mod running_request;
pub mod session;
mod session_folder;
mod session_lookup;
pub mod streams;
mod tasks;
pub mod trace;
pub mod translate;

use self::client_calls::ClientCalls;
use self::folder_servers::FolderServers;
use crate::connections::{ConnectionLimits, ConnectionSharing, Connections};
use crate::guard::RequestGuard;
use crate::identify::{Authenticator, IdentifyRequest, Unidentified};
use session::{Sessions, UserCount};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use streams::Streams;
use tokio_util::sync::CancellationToken;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Fault;
use toolbooth_engine::{Engine, RefusedAttempt};
use toolbooth_upstream::peer::ResultReading;

/// The state that all MCP connections share.
#[derive(Debug)]
pub struct FrontEndState {
    /// The engine that runs the requests.
    pub engine: Arc<Engine>,
    /// Checks Host and Origin headers.
    pub guard: RequestGuard,
    /// Identifies callers.
    pub authenticator: Authenticator,
    /// Legacy sessions.
    pub sessions: Sessions,
    /// Calls that have not ended.
    pub client_calls: Arc<ClientCalls>,
    /// Open connections of all threads.
    pub connections: Arc<Connections>,
    /// Open change streams.
    pub streams: Arc<Streams>,
    /// Maximum size of a request body, in bytes.
    pub body_limit: usize,
    /// Whether long results may be forwarded in chunks.
    pub reading: ResultReading,
    /// Interval of keep-alive comments on idle streams.
    pub keep_alive: Duration,
    /// Is cancelled when the gateway stops; open streams end then.
    pub stop: CancellationToken,
    /// The servers of the folders that local clients work in; set once, if the gateway has any.
    pub folders: OnceLock<Arc<dyn FolderServers>>,
}

impl FrontEndState {
    /// Sets each user's quota of connections, streams and sessions for the current mode. Must be called whenever the
    /// mode changes.
    pub fn update_quotas(&self) {
        let sharing = if self.authenticator.is_undivided() {
            ConnectionSharing::Undivided
        } else {
            ConnectionSharing::PerUser
        };
        let limits = ConnectionLimits::of_process(sharing);
        self.connections.set_limits(limits);
        self.streams.set_limits(limits);
        self.sessions.set_users(if self.authenticator.is_local() {
            UserCount::One
        } else {
            UserCount::Several
        });
    }

    /// Ends idle legacy sessions.
    pub fn sweep(&self) {
        self.engine.audit().settle_refusals();
        for gone in self.sessions.sweep() {
            session::forget(self, &gone);
        }
        self.extend_sessions();
    }

    /// Identifies the caller of a request.
    pub async fn identify(&self, request: IdentifyRequest<'_>) -> Result<Arc<Caller>, Unidentified> {
        pin!(self.authenticator.identify(request, &**self.engine.tokens())).await
    }

    /// Records a refused credential. A missing one is not recorded, because clients start without one.
    pub fn note_refusal(&self, unidentified: &Unidentified, source: &str, attempt: &str) {
        if matches!(unidentified, Unidentified::Refused(_) | Unidentified::Throttled { .. }) {
            let explained = unidentified.reason_for_client().map(|why| format!("{attempt} ({why})"));
            self.engine.audit().record_refusal(RefusedAttempt {
                code: unidentified.code(),
                source,
                user: None,
                attempt: explained.as_deref().unwrap_or(attempt),
            });
        }
    }
}
