//! The servers that a reload changes, by content hash, so that only changed servers restart.

use crate::servers::ConfiguredServer;
use toolbooth_core::names::ServerName;

/// The differences between the servers of two loads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerChanges {
    /// New servers.
    pub added: Vec<ServerName>,
    /// Servers that are no longer configured.
    pub removed: Vec<ServerName>,
    /// Servers whose entry or state has changed.
    pub changed: Vec<ServerName>,
    /// Servers that keep running.
    pub unchanged: Vec<ServerName>,
}

impl ServerChanges {
    /// Compares two loads.
    pub fn between(before: &[ConfiguredServer], after: &[ConfiguredServer]) -> Self {
        let mut changes = Self::default();
        for server in after {
            let earlier = before.iter().find(|earlier| earlier.name == server.name);
            let same = |earlier: &ConfiguredServer| {
                earlier.hash == server.hash && earlier.state.as_str() == server.state.as_str()
            };
            let list = match earlier {
                None => &mut changes.added,
                Some(earlier) if same(earlier) => &mut changes.unchanged,
                Some(_) => &mut changes.changed,
            };
            list.push(server.name.clone());
        }
        let gone = before.iter().filter(|server| !after.iter().any(|later| later.name == server.name));
        changes.removed = gone.map(|server| server.name.clone()).collect();
        changes
    }

    /// Whether no server was added, removed or changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}
