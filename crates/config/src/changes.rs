//! What a reload changes: by content hash, so that only changed servers restart.

use crate::servers::ConfiguredServer;
use toolbooth_core::names::ServerName;

/// The servers that a reload touches, and those that it leaves alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerChanges {
    /// New ones.
    pub added: Vec<ServerName>,
    /// Gone ones.
    pub removed: Vec<ServerName>,
    /// Those whose entry or state is another.
    pub changed: Vec<ServerName>,
    /// Those that keep their process.
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

    /// Whether nothing has to be done.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}
