//! Calls of MCP clients that have not ended, so that their user or an administrator can see and cancel them.
//!
//! Every call passes here, so the list is divided into shards, each with its own lock.

use super::cancel::Cancel;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolbooth_core::call::IncomingCall;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::permission::{Permission, on_owned_work};
use uuid::Uuid;

/// The number of shards.
const SHARDS: usize = 16;
/// The maximum length of a tool's name in the list, in bytes.
const MAX_NAME: usize = 256;

/// The calls of MCP clients that have not ended.
#[derive(Debug, Default)]
pub struct ClientCalls {
    shards: [Mutex<HashMap<Uuid, ClientCall>>; SHARDS],
}

/// A call of an MCP client.
#[derive(Debug, Clone)]
pub struct ClientCall {
    /// Its user.
    pub user: Arc<str>,
    /// The client.
    pub client: Arc<ClientFacts>,
    /// The name of the tool, as the client wrote it.
    pub tool: String,
    /// When it began, in milliseconds since 1970.
    pub at_ms: i64,
    cancel: Cancel,
}

/// Keeps a call in the list until it is dropped.
#[derive(Debug)]
pub struct ClientCallEntry {
    calls: Arc<ClientCalls>,
    id: Uuid,
    cancel: Cancel,
}

impl ClientCallEntry {
    /// Waits until the call is cancelled.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }
}

/// The error for the request whose call was cancelled. `waiting` are the calls that wait for approval.
pub(crate) fn cancelled(id: Uuid, waiting: &HashMap<Uuid, Uuid>) -> Problem {
    let message = match waiting.contains_key(&id) {
        true => format!("call `{id}` was cancelled while it waited for approval; it was not run"),
        false => format!("call `{id}` was cancelled by a person; its server may have done its work already"),
    };
    Problem { code: "call.cancelled", blame: Blame::Caller, message, hint: None }
}

impl Drop for ClientCallEntry {
    fn drop(&mut self) {
        self.calls.shard(self.id).remove(&self.id);
    }
}

impl ClientCalls {
    /// Adds a call to the list.
    pub fn begin(self: &Arc<Self>, id: Uuid, incoming: &IncomingCall, at_ms: i64) -> ClientCallEntry {
        let cancel = Cancel::default();
        let name = &incoming.name;
        let call = ClientCall {
            user: incoming.caller.user.clone(),
            client: incoming.client.clone(),
            tool: name[..name.floor_char_boundary(MAX_NAME)].to_owned(),
            at_ms,
            cancel: cancel.clone(),
        };
        self.shard(id).insert(id, call);
        ClientCallEntry { calls: self.clone(), id, cancel }
    }

    /// The calls that a caller may see: their own, or those of all users for an administrator.
    pub fn visible_to(&self, caller: &Caller) -> Vec<(Uuid, ClientCall)> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let calls = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let visible =
                calls.iter().filter(|(_, call)| on_owned_work(caller, &call.user) == Permission::Granted);
            found.extend(visible.map(|(id, call)| (*id, call.clone())));
        }
        found
    }

    /// The user of a call, if the caller may see it.
    pub fn user_of(&self, id: Uuid, caller: &Caller) -> Option<Arc<str>> {
        let calls = self.shard(id);
        calls
            .get(&id)
            .map(|call| call.user.clone())
            .filter(|user| on_owned_work(caller, user) == Permission::Granted)
    }

    /// Cancels a call; returns its user, or `None` if the caller sees no such call.
    pub fn cancel(&self, id: Uuid, caller: &Caller) -> Option<Arc<str>> {
        let calls = self.shard(id);
        let call = calls.get(&id).filter(|call| on_owned_work(caller, &call.user) == Permission::Granted)?;
        call.cancel.cancel();
        Some(call.user.clone())
    }

    fn shard(&self, id: Uuid) -> MutexGuard<'_, HashMap<Uuid, ClientCall>> {
        // The last byte of the id is random.
        let number = usize::from(id.as_bytes()[15]) % SHARDS;
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::caller::Admin;

    fn caller(user: &str, admin: Admin) -> Caller {
        Caller { admin, ..Caller::owner(user) }
    }

    fn incoming(caller: &Caller, name: &str) -> IncomingCall {
        IncomingCall {
            caller: Arc::new(caller.clone()),
            client: Arc::default(),
            name: name.into(),
            arguments: None,
            meta: Vec::new(),
        }
    }

    #[tokio::test]
    async fn users_cancel_their_own_calls_and_administrators_all() {
        let calls = Arc::new(ClientCalls::default());
        let (ann, bob) = (caller("ann", Admin::No), caller("bob", Admin::No));
        let root = caller("root", Admin::Yes);
        let id = Uuid::from_u128(7);
        let entry = calls.begin(id, &incoming(&ann, &"é".repeat(200)), 5);
        assert_eq!(calls.visible_to(&ann)[0].1.tool.len(), MAX_NAME);
        assert!(calls.visible_to(&bob).is_empty() && calls.cancel(id, &bob).is_none());
        assert_eq!(calls.cancel(id, &root).as_deref(), Some("ann"));
        entry.cancelled().await;
        drop(entry);
        assert!(calls.visible_to(&root).is_empty() && calls.cancel(id, &ann).is_none());
    }
}
