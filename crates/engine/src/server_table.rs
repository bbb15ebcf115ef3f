//! The table of configured servers, which `Servers` writes and all other parts read.

use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::sync::Arc;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::ServerEntry;
use toolbooth_upstream::{ServerState, Supervised, UpstreamError};

/// A configured server.
#[derive(Debug, Clone)]
pub enum ManagedServer {
    /// Running or able to run: under supervision.
    Running {
        /// The hash of its configuration entry.
        hash: String,
        /// The server.
        server: Arc<Supervised>,
    },
    /// Not run: disabled, invalid or not trusted.
    Idle(ServerState),
}

impl ManagedServer {
    /// The state of the server.
    pub fn state(&self) -> ServerState {
        match self {
            Self::Running { server, .. } => server.state(),
            Self::Idle(state) => state.clone(),
        }
    }
}

/// All configured servers, by name.
pub(crate) type ServersByName = BTreeMap<ServerName, ManagedServer>;

/// The configured servers. A reload replaces the table as a whole.
#[derive(Debug, Default)]
pub(crate) struct ServerTable(ArcSwap<ServersByName>);

impl ServerTable {
    /// All servers.
    pub(crate) fn all(&self) -> Arc<ServersByName> {
        self.0.load_full()
    }

    /// Replaces the table, and returns the earlier one.
    pub(crate) fn replace(&self, servers: ServersByName) -> Arc<ServersByName> {
        self.0.swap(Arc::new(servers))
    }

    /// A server that requests can be sent to.
    pub(crate) fn running(&self, name: &ServerName) -> Result<Arc<Supervised>, UpstreamError> {
        match self.0.load().get(name) {
            Some(ManagedServer::Running { server, .. }) => Ok(server.clone()),
            other => Err(UpstreamError::NotConnected {
                server: name.to_string(),
                state: other.map_or("gone", |managed| managed.state().as_str()),
                reason: "it is not running".into(),
                retry_in: None,
            }),
        }
    }

    /// The configuration entry of a server that runs or is able to run.
    pub(crate) fn entry(&self, name: &ServerName) -> Option<Arc<ServerEntry>> {
        match self.0.load().get(name) {
            Some(ManagedServer::Running { server, .. }) => Some(server.entry.clone()),
            Some(ManagedServer::Idle(_)) | None => None,
        }
    }

    /// The state of a server; `None` if it is not configured.
    pub(crate) fn state(&self, name: &ServerName) -> Option<ServerState> {
        self.0.load().get(name).map(ManagedServer::state)
    }
}
