//! Refresh: all servers list again what they offer.

use super::Servers;
use crate::server_table::ManagedServer;
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::names::ServerName;
use toolbooth_upstream::{ServerState, Supervised};

/// The maximum number of servers that are refreshed at the same time.
const AT_ONCE: usize = 16;
/// How much longer than two handshakes one server may take.
const GRACE: Duration = Duration::from_secs(1);

/// Which servers are refreshed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshScope {
    /// Connected servers.
    Connected,
    /// Also servers that wait for a reconnect or were not needed yet.
    All,
}

impl Servers {
    /// Has servers list again what they offer, waits until it is in the catalog, and returns the servers with their
    /// state.
    pub async fn refresh(&self, scope: RefreshScope) -> Vec<(ServerName, ServerState)> {
        let listing: Vec<_> = self.servers_in(scope).into_iter().map(list_again).collect();
        let mut servers: Vec<_> =
            futures_util::stream::iter(listing).buffer_unordered(AT_ONCE).collect().await;
        // The caller wants to see the result at once.
        self.catalog.publish_now().await;
        servers.sort_by(|(a, _), (b, _)| a.cmp(b));
        servers
    }

    pub(super) fn servers_in(&self, scope: RefreshScope) -> Vec<Arc<Supervised>> {
        let servers = self.table.all();
        let running = servers.values().filter_map(|managed| match managed {
            ManagedServer::Running { server, .. } => Some(server),
            ManagedServer::Idle(_) => None,
        });
        let is_in_scope = |server: &&Arc<Supervised>| {
            scope == RefreshScope::All || server.state() == ServerState::Connected
        };
        running.filter(is_in_scope).cloned().collect()
    }
}

async fn list_again(server: Arc<Supervised>) -> (ServerName, ServerState) {
    let patience = server.entry.connect_timeout * 2 + GRACE;
    let listing = async {
        server.refresh().await;
        // A server that had to connect first is still listing.
        let _ = server.ready().await;
    };
    let _ = tokio::time::timeout(patience, listing).await;
    (server.entry.name.clone(), server.state())
}
