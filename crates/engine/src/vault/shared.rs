//! The vault of one server in a store that several gateways share: one sealed record per key, and a lease, so that two
//! gateways do not use the same refresh token.

use super::SealedFileVault;
use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::clock::Clock;
use toolbooth_core::hex;
use toolbooth_store::{SharedKind, SharedRecord, Store};
use toolbooth_upstream::oauth::{TokenVault, VaultTurn};
use uuid::Uuid;

/// How long a deleted record stays visible to other gateways.
const DELETED_MS: i64 = 24 * 3_600_000;
/// How long a turn lasts, if its gateway does not end it.
const LEASE_MS: i64 = 60_000;
/// How often a turn is asked for.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// How often a turn is asked for before it counts as lost.
const MAX_ASKED: u32 = 150;

/// The vault of one server, in a shared store.
pub(super) struct SharedVault {
    /// Holds the records from before the store was shared.
    pub(super) in_file: SealedFileVault,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<Clock>,
}

impl SharedVault {
    /// The name of a record. Keys may contain long URLs.
    fn name(&self, key: &str) -> String {
        format!("{} {}", self.in_file.server, hex::encode(&Sha256::digest(key.as_bytes())))
    }

    /// Binds a sealed record to its server and key: a copy under another name cannot be opened.
    fn context(&self, key: &str) -> String {
        format!("vault of {} for {key}", self.in_file.server)
    }

    async fn read(&self, key: &str) -> Result<Option<SharedRecord>, String> {
        let found = self.store.shared_record(SharedKind::Vault, &self.name(key)).await;
        found.map_err(|error| {
            let server = &self.in_file.server;
            tracing::warn!(server.name = %server, "the stored tokens of `{server}` cannot be read: {error}");
            error.to_string()
        })
    }

    async fn write(&self, key: &str, value: &Bytes) -> Result<(), String> {
        let now_ms = self.clock.now_ms();
        let (body, expires_ms) = if value.is_empty() {
            (String::new(), now_ms.saturating_add(DELETED_MS))
        } else {
            let sealer = self.in_file.folder.sealer().await.ok_or("the store has no key")?;
            let sealed = sealer.seal(value, self.context(key).as_bytes());
            (sealed.ok_or("the system provides no random numbers")?, i64::MAX)
        };
        let record = SharedRecord {
            kind: SharedKind::Vault,
            name: self.name(key),
            user: String::new(),
            body,
            changed_ms: now_ms,
            expires_ms,
        };
        self.store.save_shared(record).await.map_err(|error| error.to_string())
    }
}

#[async_trait]
impl TokenVault for SharedVault {
    async fn load(&self, key: &str) -> Option<Bytes> {
        self.try_load(key).await.ok().flatten()
    }

    async fn try_load(&self, key: &str) -> Result<Option<Bytes>, String> {
        let Some(record) = self.read(key).await? else {
            let Some(value) = self.in_file.try_load(key).await? else { return Ok(None) };
            // Moved, not copied: a value that is deleted later must not come back from the file.
            if self.write(key, &value).await.is_ok() {
                self.in_file.save(key, Bytes::new()).await;
            }
            return Ok(Some(value));
        };
        if record.body.is_empty() {
            return Ok(None);
        }
        let sealer = self.in_file.folder.sealer().await.ok_or("the store has no key")?;
        let opened = sealer.open_stored(&record.body, self.context(key).as_bytes());
        if opened.is_none() {
            let server = &self.in_file.server;
            tracing::warn!(server.name = %server, "the stored tokens of `{server}` cannot be opened");
        }
        Ok(opened.map(Bytes::from))
    }

    async fn save(&self, key: &str, value: Bytes) {
        if let Err(why) = self.write(key, &value).await {
            let server = &self.in_file.server;
            tracing::warn!(server.name = %server, "the tokens of `{server}` could not be stored: {why}");
        }
    }

    async fn is_deleted(&self, key: &str) -> bool {
        self.read(key).await.ok().flatten().is_some_and(|record| record.body.is_empty())
    }

    async fn turn(&self) -> Result<Option<VaultTurn>, String> {
        let lease = VaultLease {
            store: self.store.clone(),
            name: format!("vault {}", self.in_file.server),
            holder: Uuid::new_v4().to_string(),
        };
        for _ in 0..MAX_ASKED {
            let now_ms = self.clock.now_ms();
            let until_ms = now_ms.saturating_add(LEASE_MS);
            match self.store.take_lease(&lease.name, &lease.holder, now_ms, until_ms).await {
                Ok(true) => return Ok(Some(Box::new(lease))),
                Ok(false) => tokio::time::sleep(ASK_EVERY).await,
                Err(error) => {
                    tracing::warn!("a lease in the store could not be taken: {error}");
                    return Err(error.to_string());
                }
            }
        }
        Err("another gateway has not ended its turn".into())
    }
}

/// A turn at a vault; ended when it is dropped.
struct VaultLease {
    store: Arc<dyn Store>,
    name: String,
    holder: String,
}

impl Drop for VaultLease {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let store = self.store.clone();
        let (name, holder) = (std::mem::take(&mut self.name), std::mem::take(&mut self.holder));
        runtime.spawn(async move {
            // A lease that cannot be ended expires.
            let _ = store.end_lease(&name, &holder).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system_clock;
    use crate::vault::VaultFolder;
    use tokio::sync::{Mutex, OnceCell};
    use toolbooth_store::StoreUrl;

    fn vault(folder: &std::path::Path, store: &Arc<dyn Store>) -> SharedVault {
        let server: toolbooth_core::names::ServerName = "mail".parse().expect("a name");
        let path = folder.to_path_buf();
        let file = path.join("mail.sealed");
        let folder = Arc::new(VaultFolder { path, store: store.clone(), sealer: OnceCell::new() });
        let in_file = SealedFileVault { server, file, folder, turn: Mutex::default() };
        SharedVault { in_file, store: store.clone(), clock: system_clock() }
    }

    #[tokio::test]
    async fn gateways_see_each_others_values_and_take_turns() {
        let folder = std::env::temp_dir().join(format!("toolbooth-shared-vault-{}", std::process::id()));
        let store = toolbooth_store::open(&StoreUrl::Memory).await.expect("a store");
        let (a, b) = (vault(&folder.join("a"), &store), vault(&folder.join("b"), &store));
        // A value from before the store was shared is moved.
        a.in_file.save("old", Bytes::from_static(b"0ld")).await;
        assert_eq!(b.load("old").await, None);
        assert_eq!(a.load("old").await.as_deref(), Some(&b"0ld"[..]));
        assert_eq!(b.load("old").await.as_deref(), Some(&b"0ld"[..]));
        assert_eq!(a.in_file.load("old").await, None);

        a.save("tokens", Bytes::from_static(b"t0p")).await;
        assert_eq!(b.load("tokens").await.as_deref(), Some(&b"t0p"[..]));
        let record = b.read("tokens").await.expect("it can be read").expect("a record");
        assert!(!record.body.contains("t0p") && !record.name.contains("tokens"));
        assert!(!a.is_deleted("tokens").await && !a.is_deleted("unknown").await);
        b.save("tokens", Bytes::new()).await;
        assert_eq!(a.load("tokens").await, None);
        assert!(a.is_deleted("tokens").await);

        let turn = a.turn().await.expect("a turn");
        let waiting = tokio::spawn(async move { b.turn().await.is_ok_and(|turn| turn.is_some()) });
        tokio::time::sleep(ASK_EVERY / 2).await;
        assert!(!waiting.is_finished());
        drop(turn);
        assert!(waiting.await.expect("it ended"));
        let _ = std::fs::remove_dir_all(folder);
    }
}
