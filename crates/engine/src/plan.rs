//! What the configuration wants: which servers, and in which shape.

use std::sync::Arc;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::ServerEntry;
use toolbooth_upstream::ServerState;
use toolbooth_upstream::http::Credential;

/// One server as the configuration wants it.
#[derive(Debug, Clone)]
pub struct ServerPlan {
    /// Its name.
    pub name: ServerName,
    /// A hash of its entry: equal hashes need no restart.
    pub hash: String,
    /// Whether it runs.
    pub standing: Standing,
}

/// Whether a server runs.
#[derive(Debug, Clone)]
pub enum Standing {
    /// It does.
    Run(Arc<ServerEntry>, Credential),
    /// It does not: disabled, broken or not trusted.
    Idle(ServerState),
}
