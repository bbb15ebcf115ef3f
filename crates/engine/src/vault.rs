//! Storage of the gateway's own OAuth tokens for servers, and of users' keys: one sealed file per server, in the data
//! folder, or sealed records in a store that several gateways share.
//!
//! The key is in the store's key file, so neither the vault file nor the database alone reveals a token. A file that
//! cannot be opened counts as empty: at worst, users have to sign in or give their keys again.

mod shared;

use crate::keys::sealing_key;
use async_trait::async_trait;
use bytes::Bytes;
use shared::SharedVault;
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
                let (store, is_shared) = (folder.store.clone(), folder.store.is_shared());
                let folder = folder.clone();
                let in_file =
                    SealedFileVault { server: server.clone(), file, folder, turn: Mutex::default() };
                match is_shared {
                    true => Arc::new(SharedVault { in_file, store, clock: self.clock.clone() }),
                    false => Arc::new(in_file),
                }
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

/// Why the records of a vault are not known.
#[derive(Debug)]
enum VaultFault {
    /// The file or the key could not be read now. Nothing may be written, or records would be lost.
    Unavailable(String),
    /// The file was damaged, or sealed with another key.
    Unreadable,
}

impl std::fmt::Display for VaultFault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unavailable(why) => formatter.write_str(why),
            Self::Unreadable => formatter.write_str("the file cannot be opened with the key of this store"),
        }
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

    /// The records; none if the file does not exist.
    async fn read(&self) -> Result<VaultRecords, VaultFault> {
        let file = self.file.clone();
        let text = tokio::task::spawn_blocking(move || fs::read_to_string(file)).await;
        let text = match text.map_err(|error| VaultFault::Unavailable(error.to_string()))? {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(VaultRecords::new()),
            Err(error) => return Err(VaultFault::Unavailable(error.to_string())),
        };
        let sealer = self.folder.sealer().await;
        let sealer = sealer.ok_or_else(|| VaultFault::Unavailable("the store has no key".to_owned()))?;
        let opened = sealer.open_stored(text.trim_end(), self.context().as_bytes());
        opened.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or(VaultFault::Unreadable)
    }

    /// The records to change. A file that cannot be opened with this store's key is kept under another name.
    async fn read_to_change(&self) -> Result<VaultRecords, String> {
        match self.read().await {
            Ok(records) => Ok(records),
            Err(VaultFault::Unavailable(why)) => Err(why),
            Err(VaultFault::Unreadable) => {
                let (file, kept) = (self.file.clone(), self.file.with_extension("unreadable"));
                let renamed = tokio::task::spawn_blocking(move || fs::rename(file, kept)).await;
                let renamed = renamed.map_err(|error| error.to_string())?;
                renamed.map(|()| VaultRecords::new()).map_err(|error| error.to_string())
            }
        }
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
        let text =
            sealer.seal(&bytes, self.context().as_bytes()).ok_or("the system provides no random numbers")?;
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
        match self.read().await {
            Ok(mut records) => records.remove(key).map(Bytes::from),
            Err(fault) => {
                tracing::warn!(server.name = %self.server, "the tokens of `{}` cannot be read: {fault}", self.server);
                None
            }
        }
    }

    async fn try_load(&self, key: &str) -> Result<Option<Bytes>, String> {
        let _turn = self.turn.lock().await;
        match self.read().await {
            Ok(mut records) => Ok(records.remove(key).map(Bytes::from)),
            // Kept under another name at the next change.
            Err(VaultFault::Unreadable) => Ok(None),
            Err(VaultFault::Unavailable(why)) => Err(why),
        }
    }

    async fn save(&self, key: &str, value: Bytes) {
        let _turn = self.turn.lock().await;
        let stored = async {
            let mut records = self.read_to_change().await?;
            match String::from_utf8(value.to_vec()) {
                Ok(value) if !value.is_empty() => drop(records.insert(key.to_owned(), value)),
                _ => drop(records.remove(key)),
            }
            self.write(&records).await
        };
        if let Err(why) = stored.await {
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
        // The next change of the other server keeps what could not be opened.
        vaults().of(&"other".parse().expect("a name")).save("tokens", Bytes::from_static(b"{}")).await;
        assert_eq!(fs::read(folder.join("other.unreadable")).ok(), fs::read(&file).ok());
        // A file that cannot be read is not replaced.
        fs::create_dir(folder.join("held.sealed")).expect("a folder in its place");
        vaults().of(&"held".parse().expect("a name")).save("tokens", Bytes::from_static(b"{}")).await;
        assert!(folder.join("held.sealed").is_dir());
        vaults().of(&name).save("tokens", Bytes::new()).await;
        assert_eq!(vaults().of(&name).load("tokens").await, None);
        assert!(!file.exists(), "nothing is left of what was forgotten");
        fs::remove_dir_all(folder).expect("the folder can be removed");
    }
}
