//! The users who have given a key of their own to a server.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// The users who have given a key of their own to a server. Clones share the set, so that a decision on an older
/// snapshot of the catalog uses the current one.
#[derive(Clone, Default)]
pub struct KeyHolders(Arc<RwLock<BTreeSet<String>>>);

impl KeyHolders {
    /// Whether this user has given a key.
    pub fn contains(&self, user: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(user)
    }

    /// Replaces the users.
    pub fn replace(&self, users: BTreeSet<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = users;
    }
}

impl fmt::Debug for KeyHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.read().unwrap_or_else(PoisonError::into_inner).len();
        write!(f, "KeyHolders({count})")
    }
}

/// Always equal: the users are state, not configuration.
impl PartialEq for KeyHolders {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KeyHolders {}
