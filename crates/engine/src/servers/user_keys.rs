//! Keys that users give to servers for their own calls.

use super::{DesiredServer, DesiredState, Servers};
use crate::server_table::{ManagedServer, ServersByName};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::server::ServerEntry;
use toolbooth_upstream::http::ServerCredential;
use toolbooth_upstream::{KeyChange, Supervised, UserKeyStatus, UserKeys};

impl Servers {
    /// Stores a user's key for a server. Calls use it at once.
    pub async fn set_user_key(&self, server: &Supervised, caller: &Caller, key: &str) -> Result<(), Problem> {
        keys_of(server)?.set(&caller.user, key).await.map_err(|error| Problem::of(&error))?;
        server.key_changed(&caller.user, KeyChange::Set).await;
        self.catalog.follow_keys().await;
        Ok(())
    }

    /// Deletes a user's key for a server and closes the user's connections. Returns whether there was one.
    pub async fn delete_user_key(&self, server: &Supervised, caller: &Caller) -> Result<bool, Problem> {
        let was_set = keys_of(server)?.delete(&caller.user).await.map_err(|error| Problem::of(&error))?;
        if was_set {
            server.key_changed(&caller.user, KeyChange::Deleted).await;
            self.catalog.follow_keys().await;
        }
        Ok(was_set)
    }

    /// Whether a user has given a key to a server, and when.
    pub fn user_key(&self, server: &Supervised, caller: &Caller) -> Result<Option<UserKeyStatus>, Problem> {
        Ok(keys_of(server)?.status(&caller.user))
    }
}

fn keys_of(server: &Supervised) -> Result<&Arc<UserKeys>, Problem> {
    server.pool.user_keys().ok_or_else(|| Problem {
        code: "server.no-user-keys",
        blame: Blame::Caller,
        message: format!("server `{}` does not take keys of users", server.entry.name),
        hint: Some("its entry needs `auth_type` (`api_key`, `bearer` or `jwt`) and no `auth_token`".into()),
    })
}

/// Loads the users' keys of servers that are about to start. A server that already runs passes its keys on, so that
/// there is one writer.
pub(super) async fn load_keys(desired: &mut [DesiredServer], before: &ServersByName) {
    for DesiredServer { name, state, .. } in desired {
        let DesiredState::Run(entry, ServerCredential::UserKeys(keys)) = state else { continue };
        let earlier = match before.get(name) {
            Some(ManagedServer::Running { server, .. }) => server.pool.user_keys(),
            _ => None,
        };
        match earlier.filter(|earlier| earlier.is_same_as(keys)) {
            Some(earlier) => {
                *entry = Arc::new(ServerEntry::clone(entry).with_key_holders(earlier.holders()));
                *keys = earlier.clone();
            }
            None => keys.load().await,
        }
    }
}
