//! The key file: the secrets of the installation, in a separate file next to the database.
//!
//! The database holds the data that the keys seal, so a copy of the database alone cannot be decrypted. The database
//! stores a fingerprint of each key. A missing or different key file is therefore detected when the store is opened,
//! and a key that was in use is never replaced by a new one.
//!
//! A key is created in three steps, and is not returned before the last one: the file is written under a temporary name
//! and synced, it is renamed, and the fingerprint is committed. After a crash between two steps the next start
//! continues: it removes a temporary file, and commits the fingerprint of a key without one before the key is used.

use crate::{KeyFileError, StoreError, limits, sql};
use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};
use sqlx::{Connection, Executor, Row, SqliteConnection};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use toolbooth_core::hex::{decode as unhex, encode as hex};

/// The first line of the file.
const FIRST_LINE: &str = "toolbooth keys 1";
/// The prefix of a fingerprint in the column that held the key in earlier versions. No key begins with it.
const MARKER: &[u8] = b"key file: ";
/// The largest size of the file.
const MAX_BYTES: u64 = 1 << 20;

/// The key file of one database.
#[derive(Debug)]
pub(super) struct KeyFile {
    path: PathBuf,
    keys: BTreeMap<String, Vec<u8>>,
    /// The names of keys whose fingerprint is in the database.
    marked: BTreeSet<String>,
}

impl KeyFile {
    /// Reads the key file of a database and compares it with the fingerprints in the database. Keys that an earlier
    /// version stored in the database are moved into the file.
    pub(super) async fn open(
        database: &Path,
        connection: &mut SqliteConnection,
        fault: impl Fn(&sqlx::Error) -> StoreError,
    ) -> Result<Self, StoreError> {
        let mut file = Self::read(with_suffix(database, ".keys"))?;
        let rows = connection.fetch_all(sql::SECRETS).await.map_err(|error| fault(&error))?;
        let mut moving = BTreeMap::new();
        for row in rows {
            let named = (|| Ok((row.try_get::<String, _>(0)?, row.try_get::<Vec<u8>, _>(1)?)))();
            let (name, value) = named.map_err(|error: sqlx::Error| fault(&error))?;
            let Some(fingerprint) = value.strip_prefix(MARKER) else {
                moving.insert(name, value);
                continue;
            };
            match file.keys.get(&name) {
                None => return Err(file.problem(KeyFileError::Missing)),
                Some(key) if fingerprint_of(key) != fingerprint => {
                    return Err(file.problem(KeyFileError::Other));
                }
                Some(_) => {
                    file.marked.insert(name);
                }
            }
        }
        if !moving.is_empty() {
            file.move_keys(moving, connection, fault).await?;
        }
        // A killed process may have left it. A key that is only in this file was never used.
        let _ = fs::remove_file(file.draft());
        Ok(file)
    }

    /// The keys of a database that a gateway may be using.
    pub(super) fn load(database: &Path) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        Ok(Self::read(with_suffix(database, ".keys"))?.keys.into_iter().collect())
    }

    async fn move_keys(
        &mut self,
        moving: BTreeMap<String, Vec<u8>>,
        connection: &mut SqliteConnection,
        fault: impl Fn(&sqlx::Error) -> StoreError,
    ) -> Result<(), StoreError> {
        if moving.iter().any(|(name, key)| self.keys.get(name).is_some_and(|known| known != key)) {
            return Err(self.problem(KeyFileError::Other));
        }
        // The keys must be durable in the file before they are deleted from the database.
        let keys = self.keys.iter().chain(&moving).map(|(name, key)| (name.clone(), key.clone())).collect();
        self.replace(keys)?;
        let moved = async {
            let mut change = connection.begin_with("BEGIN IMMEDIATE").await?;
            for (name, key) in &moving {
                sqlx::query(sql::SET_SECRET)
                    .bind(name.clone())
                    .bind(marker_of(key))
                    .execute(&mut *change)
                    .await?;
            }
            change.commit().await?;
            // Deleted content is overwritten (`secure_delete`), but the write-ahead log has it until it is truncated.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
            Ok(())
        };
        moved.await.map_err(|error: sqlx::Error| fault(&error))?;
        self.marked.extend(moving.into_keys());
        tracing::info!(keys.path = %self.path.display(), "the keys were moved out of the database");
        Ok(())
    }

    /// Returns the key with this name.
    pub(super) fn get(&self, name: &str) -> Option<&Vec<u8>> {
        self.keys.get(name)
    }

    /// Whether the database has the fingerprint of this key. Without it, the loss of the key could not be detected.
    pub(super) fn is_marked(&self, name: &str) -> bool {
        self.marked.contains(name)
    }

    /// Marks that the database has the fingerprint of this key.
    pub(super) fn set_marked(&mut self, name: &str) {
        self.marked.insert(name.to_owned());
    }

    /// Adds a key; it is on disk when this returns.
    pub(super) fn add(&mut self, name: &str, key: Vec<u8>) -> Result<(), StoreError> {
        limits::check_secret(&key)?;
        let mut keys = self.keys.clone();
        keys.insert(name.to_owned(), key);
        self.replace(keys)
    }

    fn read(path: PathBuf) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlag::O_NOFOLLOW.bits());
        let opened = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { path, keys: BTreeMap::new(), marked: BTreeSet::new() });
            }
            opened => opened,
        };
        let mut text = String::new();
        let read = opened.and_then(|file| {
            let about = file.metadata()?;
            let is_ours = about.is_file() && about.uid() == nix::unistd::geteuid().as_raw();
            if about.permissions().mode() & 0o077 != 0 {
                file.set_permissions(PermissionsExt::from_mode(0o600))?;
            }
            file.take(MAX_BYTES).read_to_string(&mut text)?;
            Ok(is_ours)
        });
        let nothing = Self { path, keys: BTreeMap::new(), marked: BTreeSet::new() };
        match read {
            Ok(true) => {}
            Ok(false) => return Err(nothing.problem(KeyFileError::NotOwned)),
            Err(error) => return Err(StoreError::Open { path: nothing.path, reason: error.kind() }),
        }
        let keys = parse(&text).ok_or_else(|| nothing.problem(KeyFileError::Damaged))?;
        Ok(Self { keys, ..nothing })
    }

    /// Replaces the file atomically, with access for its owner only.
    fn replace(&mut self, keys: BTreeMap<String, Vec<u8>>) -> Result<(), StoreError> {
        let mut text = format!("{FIRST_LINE}\n");
        for (name, key) in &keys {
            text.push_str(&format!("{} {}\n", hex(name.as_bytes()), hex(key)));
        }
        let draft = self.draft();
        let write = || -> io::Result<()> {
            let _ = fs::remove_file(&draft);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
            let mut file = options.open(&draft)?;
            // Independent of the process's umask.
            file.set_permissions(PermissionsExt::from_mode(0o600))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &self.path)?;
            match self.path.parent() {
                Some(folder) => File::open(folder)?.sync_all(),
                None => Ok(()),
            }
        };
        write().map_err(|error| StoreError::Open { path: self.path.clone(), reason: error.kind() })?;
        self.keys = keys;
        Ok(())
    }

    /// The temporary path that is written before the rename.
    fn draft(&self) -> PathBuf {
        self.path.with_extension("keys.new")
    }

    fn problem(&self, problem: KeyFileError) -> StoreError {
        StoreError::Keys { path: self.path.clone(), problem }
    }
}

/// The value that the database stores for a key: its fingerprint with a prefix.
pub(super) fn marker_of(key: &[u8]) -> Vec<u8> {
    [MARKER, &fingerprint_of(key)].concat()
}

fn fingerprint_of(key: &[u8]) -> [u8; 16] {
    let digest: [u8; 32] =
        Sha256::new_with_prefix("toolbooth key fingerprint\0").chain_update(key).finalize().into();
    std::array::from_fn(|place| digest[place])
}

fn parse(text: &str) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut lines = text.strip_suffix('\n')?.lines();
    if lines.next() != Some(FIRST_LINE) {
        return None;
    }
    let line = |line: &str| {
        let (name, key) = line.split_once(' ')?;
        Some((String::from_utf8(unhex(name)?).ok()?, unhex(key)?))
    };
    lines.map(line).collect()
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_file_is_rejected() {
        let good = format!("{FIRST_LINE}\n{} 0aff\n", hex(b"seal"));
        assert_eq!(parse(&good), Some(BTreeMap::from([("seal".to_owned(), vec![0x0a, 0xff])])));
        assert_eq!(parse(&format!("{FIRST_LINE}\n")), Some(BTreeMap::new()));
        for bad in ["", "\n", FIRST_LINE, "other\n", &good[..good.len() - 1], &good.replace("0aff", "0af")] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
