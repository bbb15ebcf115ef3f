//! The servers that the configuration asks for.

use std::sync::Arc;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::ServerEntry;
use toolbooth_upstream::ServerState;
use toolbooth_upstream::http::ServerCredential;

/// A server that the configuration asks for.
#[derive(Debug, Clone)]
pub struct DesiredServer {
    /// The server's name.
    pub name: ServerName,
    /// A hash of its configuration entry. A server whose hash did not change is not restarted.
    pub hash: String,
    /// Whether it should run.
    pub state: DesiredState,
}

/// Whether a server should run.
#[derive(Debug, Clone)]
pub enum DesiredState {
    /// It should run, with this entry and credential.
    Run(Arc<ServerEntry>, ServerCredential),
    /// It should not: it is disabled, invalid or not trusted.
    Idle(ServerState),
}

/// The lower-case names of the request headers that any server wants forwarded from callers.
pub(super) fn wanted_headers(servers: &[DesiredServer]) -> Option<Vec<String>> {
    let entries = servers.iter().filter_map(|server| match &server.state {
        DesiredState::Run(entry, _) => Some(entry),
        DesiredState::Idle(_) => None,
    });
    let mut names: Vec<String> =
        entries.flat_map(|entry| &entry.forward_headers).map(|(from, _)| from.to_ascii_lowercase()).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then_some(names)
}
