//! Storage of the gateway's own OAuth tokens for servers, and of users' keys: one sealed file per server, in the data
//! folder.
//!
//! The key is in the store's key file, so neither the vault file nor the database alone reveals a token. A file that
//! cannot be opened counts as empty: at worst, users have to sign in or give their keys again.

use crate::keys::sealing_key;
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Mutex, OnceCell};
use toolbooth_core::clock::Clock;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::ServerEntry;
use toolbooth_store::Store;
use toolbooth_upstream::UserKeys;
use toolbooth_upstream::oauth::TokenVault;
use toolbooth_wire::state::Sealer;

/// The name of the key in the store.
const KEY_NAME: &str = "oauth-vault-key";

/// The content of a vault: records by key.
type VaultRecords = BTreeMap<String, String>;

/// The vaults of all servers.
#[derive(Clone)]
pub struct Vaults {
    clock: Arc<Clock>,
    /// `None` for vaults in memory.
    folder: Option<Arc<VaultFolder>>,
}

/// The folder of the vault files, and the key that seals them.
struct VaultFolder {
    path: PathBuf,
    store: Arc<dyn Store>,
    sealer: OnceCell<Sealer>,
}

impl Vaults {
    /// Vaults in a folder, sealed with a key from the store.
    pub fn in_folder(folder: PathBuf, store: Arc<dyn Store>, clock: Arc<Clock>) -> Self {
        Self { clock, folder: Some(Arc::new(VaultFolder { path: folder, store, sealer: OnceCell::new() })) }
    }

    /// Vaults in memory, which end with the process.
    pub fn in_memory(clock: Arc<Clock>) -> Self {
        Self { clock, folder: None }
    }

    /// The clock by which their tokens expire.
    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// The keys that users give to a server; `None` if it is not a remote server. They are not loaded yet.
    pub fn user_keys(&self, entry: &ServerEntry) -> Option<Arc<UserKeys>> {
        let origin = UserKeys::origin_of(entry)?;
        let keys = UserKeys::new(entry.name.to_string(), &origin, self.of(&entry.name), self.clock.clone());
        Some(Arc::new(keys))
    }

    /// The vault of one server.
    pub fn of(&self, server: &ServerName) -> Arc<dyn TokenVault> {
        match &self.folder {
            Some(folder) => {
                let file = folder.path.join(format!("{server}.sealed"));
                let folder = folder.clone();
                Arc::new(SealedFileVault { server: server.clone(), file, folder, turn: Mutex::default() })
            }
            None => Arc::new(InMemoryVault::default()),
        }
    }
}

impl VaultFolder {
    async fn sealer(&self) -> Option<&Sealer> {
        let made = self.sealer.get_or_try_init(|| async {
            let key = sealing_key(&*self.store, KEY_NAME).await;
            key.map(|key| Sealer::new(&key)).inspect_err(|problem| tracing::error!("{}", problem.message))
        });
        made.await.ok()
    }
}

/// The vault of one server, in a sealed file.
struct SealedFileVault {
    server: ServerName,
    file: PathBuf,
    folder: Arc<VaultFolder>,
    /// Held during a change, so that no record is lost between reading and writing.
    turn: Mutex<()>,
}

impl SealedFileVault {
    /// Binds the sealed file to its server: a copy under another server's name cannot be opened.
    fn context(&self) -> String {
        format!("oauth vault of {}", self.server)
    }

    async fn read(&self) -> VaultRecords {
        let file = self.file.clone();
        let text = tokio::task::spawn_blocking(move || fs::read_to_string(file)).await;
        let (Ok(Ok(text)), Some(sealer)) = (text, self.folder.sealer().await) else {
            return VaultRecords::new();
        };
        let opened = sealer.open(text.trim_end(), self.context().as_bytes());
        if opened.is_none() {
            tracing::warn!(server.name = %self.server, "the stored tokens of `{}` cannot be opened", self.server);
        }
        opened.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    async fn write(&self, records: &VaultRecords) -> Result<(), String> {
        let file = self.file.clone();
        if records.is_empty() {
            let gone = tokio::task::spawn_blocking(move || fs::remove_file(file)).await;
            return match gone.map_err(|error| error.to_string())? {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
                _ => Ok(()),
            };
        }
        let sealer = self.folder.sealer().await.ok_or("the store has no key")?;
        let bytes = serde_json::to_vec(records).map_err(|error| error.to_string())?;
        let text = sealer.seal(&bytes, self.context().as_bytes()).ok_or("no randomness is available")?;
        let written = tokio::task::spawn_blocking(move || write_atomically(&file, &text)).await;
        written.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}

/// Replaces a file atomically, readable only by its owner.
fn write_atomically(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let draft = file.with_extension(format!("new{}", std::process::id()));
    let _ = fs::remove_file(&draft);
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    fs::rename(draft, file)
}

#[async_trait]
impl TokenVault for SealedFileVault {
    async fn load(&self, key: &str) -> Option<Bytes> {
        let _turn = self.turn.lock().await;
        self.read().await.remove(key).map(Bytes::from)
    }

    async fn save(&self, key: &str, value: Bytes) {
        let _turn = self.turn.lock().await;
        let mut records = self.read().await;
        match String::from_utf8(value.to_vec()) {
            Ok(value) if !value.is_empty() => drop(records.insert(key.to_owned(), value)),
            _ => drop(records.remove(key)),
        }
        if let Err(why) = self.write(&records).await {
            tracing::warn!(server.name = %self.server, "the tokens of `{}` could not be stored: {why}", self.server);
        }
    }
}

/// A vault in memory.
#[derive(Default)]
struct InMemoryVault(Mutex<BTreeMap<String, Bytes>>);

#[async_trait]
impl TokenVault for InMemoryVault {
    async fn load(&self, key: &str) -> Option<Bytes> {
        self.0.lock().await.get(key).filter(|value| !value.is_empty()).cloned()
    }

    async fn save(&self, key: &str, value: Bytes) {
        self.0.lock().await.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system_clock;
    use std::os::unix::fs::PermissionsExt;
    use toolbooth_store::StoreUrl;

    #[tokio::test]
    async fn a_vault_survives_a_restart_and_its_file_reveals_nothing() {
        let folder = std::env::temp_dir().join(format!("toolbooth-vault-{}", std::process::id()));
        let store = toolbooth_store::open(&StoreUrl::Memory).await.expect("a store");
        let name: ServerName = "mail".parse().expect("a name");
        let vaults = || Vaults::in_folder(folder.clone(), store.clone(), system_clock());
        vaults().of(&name).save("tokens", Bytes::from_static(b"{\"access\":\"t0p\"}")).await;
        let found = vaults().of(&name).load("tokens").await;
        assert_eq!(found.as_deref(), Some(&b"{\"access\":\"t0p\"}"[..]));
        let file = folder.join("mail.sealed");
        assert!(!fs::read_to_string(&file).expect("a file").contains("t0p"));
        assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
        // A copy under another server's name cannot be opened.
        fs::copy(&file, folder.join("other.sealed")).expect("a copy");
        assert_eq!(vaults().of(&"other".parse().expect("a name")).load("tokens").await, None);
        vaults().of(&name).save("tokens", Bytes::new()).await;
        assert_eq!(vaults().of(&name).load("tokens").await, None);
        assert!(!file.exists(), "nothing is left of what was forgotten");
        fs::remove_dir_all(folder).expect("the folder can be removed");
    }
}
