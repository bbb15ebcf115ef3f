//! The table of configured servers, which `Servers` writes and all other parts read.

use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::names::ServerName;
use toolbooth_core::permission::{Permission, on_server};
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

    /// The error of a call to a tool of a server that needs the caller's own key. It is the same for names that the server
    /// does not have, because its tools are hidden from callers without a key.
    pub(crate) fn missing_key(&self, tool: &str, caller: &Caller) -> Option<UpstreamError> {
        let needs_key = |entry: &ServerEntry| {
            on_server(caller, entry) == Permission::Granted && entry.lacks_key_of(&caller.user)
        };
        self.0.load().iter().find_map(|(name, managed)| match managed {
            ManagedServer::Running { server, .. } if names_tool_of(tool, name.as_str()) => {
                needs_key(&server.entry).then(|| UpstreamError::NeedsKey { server: name.to_string() })
            }
            _ => None,
        })
    }

    /// The state of a server; `None` if it is not configured.
    pub(crate) fn state(&self, name: &ServerName) -> Option<ServerState> {
        self.0.load().get(name).map(ManagedServer::state)
    }
}

/// Whether a name could be one of a server's tools, such as `server_tool` or `mcp.server.tool`.
fn names_tool_of(tool: &str, server: &str) -> bool {
    let is_next = |rest: &str| rest.strip_prefix(server).is_some_and(|rest| rest.starts_with(['_', '.']));
    is_next(tool)
        || ["mcp.", "mcp__", "mcp_"].iter().any(|prefix| tool.strip_prefix(prefix).is_some_and(is_next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_begin_with_their_server() {
        let cases = [
            ("shop_buy", true),
            ("shop.buy", true),
            ("mcp.shop.buy", true),
            ("mcp__shop__buy", true),
            ("mcp_shop_buy", true),
            ("shop", false),
            ("shopping_list", false),
            ("other_shop_buy", false),
        ];
        for (tool, expected) in cases {
            assert_eq!(names_tool_of(tool, "shop"), expected, "{tool}");
        }
    }
}
