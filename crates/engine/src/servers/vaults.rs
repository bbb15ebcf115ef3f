//! Sign-ins and users' keys that another gateway on the same store has changed.

use super::Servers;
use super::refresh::RefreshScope;
use std::sync::Arc;
use toolbooth_upstream::oauth::VaultChange;
use toolbooth_upstream::{ServerState, Supervised};

impl Servers {
    /// Takes notice of changed vaults: reads users' keys again, connects servers that waited for a sign-in, and
    /// disconnects those that were signed out of.
    pub(crate) async fn follow_vaults(&self) {
        let mut has_changed_keys = false;
        for server in self.servers_in(RefreshScope::All) {
            has_changed_keys |= follow_keys(&server).await;
            follow_sign_in(&server).await;
        }
        if has_changed_keys {
            self.catalog.follow_keys().await;
        }
    }
}

/// Reads the users' keys of a server again. Returns whether one was changed.
async fn follow_keys(server: &Supervised) -> bool {
    let Some(keys) = server.pool.user_keys() else { return false };
    let changes = keys.reload().await;
    for (user, change) in &changes {
        server.key_changed(user, *change).await;
    }
    !changes.is_empty()
}

async fn follow_sign_in(server: &Arc<Supervised>) {
    let Some(authorizer) = server.pool.authorizer() else { return };
    let is_waiting = matches!(server.state(), ServerState::NeedsAuth(_));
    match authorizer.follow_vault().await {
        VaultChange::NewTokens if is_waiting => server.restart().await,
        VaultChange::SignedOut => server.restart().await,
        VaultChange::NewTokens | VaultChange::Nothing => {}
    }
}
