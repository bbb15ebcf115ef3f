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

/// The headers that any server wants of callers, by their names in lower case.
pub(crate) fn wanted_headers(plans: &[ServerPlan]) -> Option<Vec<String>> {
    let entries = plans.iter().filter_map(|plan| match &plan.standing {
        Standing::Run(entry, _) => Some(entry),
        Standing::Idle(_) => None,
    });
    let mut names: Vec<String> =
        entries.flat_map(|entry| &entry.forward_headers).map(|(from, _)| from.to_ascii_lowercase()).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then_some(names)
}
