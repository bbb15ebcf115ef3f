//! MCP doors: both eras at once, over HTTP and over lines.

mod batch;
pub mod cancel;
pub mod client;
pub mod follow;
pub mod http;
pub mod lines;
pub mod listen;
mod long;
pub mod methods;
pub mod session;
pub mod streams;
pub mod trace;
pub mod translate;

use crate::connections::{ConnectionLimits, Connections, Sharing};
use crate::guard::Guard;
use crate::identify::{Identity, Knock, Unidentified};
use session::{Sessions, Users};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use streams::Streams;
use tokio_util::sync::CancellationToken;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Fault;
use toolbooth_engine::{Engine, Refusal};
use toolbooth_upstream::peer::Reading;

/// What every MCP door shares.
#[derive(Debug)]
pub struct Door {
    /// The engine behind it.
    pub engine: Arc<Engine>,
    /// Who may come in.
    pub guard: Guard,
    /// How callers are recognised.
    pub identity: Identity,
    /// Legacy sessions.
    pub sessions: Sessions,
    /// Open connections, over all threads.
    pub connections: Arc<Connections>,
    /// Open streams of changes.
    pub streams: Arc<Streams>,
    /// The largest request taken.
    pub body_limit: usize,
    /// Whether long results may stay in pieces.
    pub reading: Reading,
    /// How often a quiet stream says that it lives.
    pub keep_alive: Duration,
    /// Fires when the gateway stops: open streams end then.
    pub stop: CancellationToken,
}

impl Door {
    /// Bounds what one user may have of connections, streams and sessions, by how callers are recognised now. To be
    /// called whenever that changes.
    pub fn share_out(&self) {
        let sharing = if self.identity.is_undivided() { Sharing::Undivided } else { Sharing::PerUser };
        let limits = ConnectionLimits::of_process(sharing);
        self.connections.set_limits(limits);
        self.streams.set_limits(limits);
        self.sessions.share_out(if self.identity.is_local() { Users::One } else { Users::Several });
    }

    /// Ends legacy sessions that nobody uses.
    pub fn sweep(&self) {
        self.engine.settle_refusals();
        for gone in self.sessions.sweep() {
            http::forget(self, &gone);
        }
    }

    /// The caller behind a knock at any door.
    pub async fn identify(&self, knock: Knock<'_>) -> Result<Arc<Caller>, Unidentified> {
        pin!(self.identity.identify(knock, &*self.engine)).await
    }

    /// Records that somebody's credential was not accepted. That a credential is missing is how clients begin.
    pub fn note_refusal(&self, unidentified: &Unidentified, source: &str, attempt: &str) {
        if matches!(unidentified, Unidentified::Refused | Unidentified::Throttled { .. }) {
            self.engine.record_refusal(Refusal { code: unidentified.code(), source, user: None, attempt });
        }
    }
}
