//! Asking every server anew, now: what they list, and whether they can be reached.

use crate::engine::{Engine, Managed};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::names::ServerName;
use toolbooth_upstream::{ServerState, Supervised};

/// How many servers are asked at once.
const AT_ONCE: usize = 16;
/// How much longer than two handshakes one server may take.
const GRACE: Duration = Duration::from_secs(1);

/// Which servers are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Those that are connected.
    Connected,
    /// Those too that are waiting for their next try, or that nobody has asked for yet.
    All,
}

impl Engine {
    /// Has servers list again what they offer, and waits until it is in the catalog; those that were asked, with
    /// where they stand now.
    pub async fn refresh(&self, asked: Asked) -> Vec<(ServerName, ServerState)> {
        let asking: Vec<_> = self.to_ask(asked).into_iter().map(listed).collect();
        let mut asked: Vec<_> = futures_util::stream::iter(asking).buffer_unordered(AT_ONCE).collect().await;
        // Whoever asks wants to see it.
        self.publish_now().await;
        asked.sort_by(|(a, _), (b, _)| a.cmp(b));
        asked
    }

    fn to_ask(&self, asked: Asked) -> Vec<Arc<Supervised>> {
        let servers = self.servers();
        let running = servers.values().filter_map(|managed| match managed {
            Managed::Running { server, .. } => Some(server),
            Managed::Idle(_) => None,
        });
        let wanted =
            |server: &&Arc<Supervised>| asked == Asked::All || server.state() == ServerState::Connected;
        running.filter(wanted).cloned().collect()
    }
}

async fn listed(server: Arc<Supervised>) -> (ServerName, ServerState) {
    let patience = server.entry.connect_timeout * 2 + GRACE;
    let listing = async {
        server.refresh().await;
        // One that had to be connected first is on its way.
        let _ = server.ready().await;
    };
    let _ = tokio::time::timeout(patience, listing).await;
    (server.entry.name.clone(), server.state())
}
