//! The key file: secrets of the installation, in a file of their own beside the database.
//!
//! The database holds what the keys seal, so a copy of it alone opens nothing. In place of each key the
//! database has its fingerprint: a key file that is missing or another one is noticed when the store is opened, and
//! no new key is ever made where an old one was in use.
//!
//! A key is made in three steps, and is not handed out before the last one: the file is written under another name and
//! synced, it is renamed, and the fingerprint is committed. After a crash between two of them the next start goes on
//! from there: a draft is removed, and a key without a fingerprint gets it before it is used.

use crate::{StoreError, limits, sql};
use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};
use sqlx::{Connection, Executor, Row, SqliteConnection};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The first line of the file.
const FIRST_LINE: &str = "toolbooth keys 1";
/// How a fingerprint begins where a key stood. No key that was ever made begins like this.
const MARKER: &[u8] = b"key file: ";
/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// The key file of one database.
#[derive(Debug)]
pub(super) struct KeyFile {
    path: PathBuf,
    keys: BTreeMap<String, Vec<u8>>,
    /// The keys whose fingerprint is in the database.
    marked: BTreeSet<String>,
}

/// What is wrong with a key file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyTrouble {
    /// The database was used with a key that is not in the file, or there is no file.
    #[error("is missing or lacks a key that this database was used with")]
    Missing,
    /// The key in the file is not the one that the database was used with.
    #[error("has other keys than this database was used with")]
    Other,
    /// The file is not what was written.
    #[error("is damaged")]
    Damaged,
    /// Others than the gateway's own user may read it, and that could not be changed.
    #[error("is open to others than its owner")]
    Open,
}

impl KeyFile {
    /// Reads the file beside a database and compares it with the fingerprints that the database has. Keys that
    /// an earlier version kept in the database are moved into the file.
    pub(super) async fn open(
        database: &Path,
        connection: &mut SqliteConnection,
        fault: impl Fn(&sqlx::Error) -> StoreError,
    ) -> Result<Self, StoreError> {
        let mut file = Self::read(beside(database, ".keys"))?;
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
                None => return Err(file.trouble(KeyTrouble::Missing)),
                Some(key) if fingerprint_of(key) != fingerprint => {
                    return Err(file.trouble(KeyTrouble::Other));
                }
                Some(_) => {
                    file.marked.insert(name);
                }
            }
        }
        if !moving.is_empty() {
            file.take_over(moving, connection, fault).await?;
        }
        // A process that was killed left it. No key was ever used that is only there.
        let _ = fs::remove_file(file.draft());
        Ok(file)
    }

    async fn take_over(
        &mut self,
        moving: BTreeMap<String, Vec<u8>>,
        connection: &mut SqliteConnection,
        fault: impl Fn(&sqlx::Error) -> StoreError,
    ) -> Result<(), StoreError> {
        if moving.iter().any(|(name, key)| self.keys.get(name).is_some_and(|known| known != key)) {
            return Err(self.trouble(KeyTrouble::Other));
        }
        // First they are in the file for good, then they leave the database.
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
            // Deleted content is overwritten (`secure_delete`); the log still has it until it is emptied.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
            Ok(())
        };
        moved.await.map_err(|error: sqlx::Error| fault(&error))?;
        self.marked.extend(moving.into_keys());
        tracing::info!(keys.path = %self.path.display(), "the keys were moved out of the database");
        Ok(())
    }

    /// The key of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Vec<u8>> {
        self.keys.get(name)
    }

    /// Whether the database has the fingerprint of this key. Without it, nobody would notice that the key is gone.
    pub(super) fn is_marked(&self, name: &str) -> bool {
        self.marked.contains(name)
    }

    /// Notes that the database has the fingerprint of this key.
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
            Ok(false) => return Err(nothing.trouble(KeyTrouble::Open)),
            Err(error) => return Err(StoreError::Open { path: nothing.path, reason: error.kind() }),
        }
        let keys = parse(&text).ok_or_else(|| nothing.trouble(KeyTrouble::Damaged))?;
        Ok(Self { keys, ..nothing })
    }

    /// Writes the file whole or not at all, for its owner only.
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
            // Whatever the process's umask is.
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

    /// Where the file is written before it takes its place.
    fn draft(&self) -> PathBuf {
        self.path.with_extension("keys.new")
    }

    fn trouble(&self, trouble: KeyTrouble) -> StoreError {
        StoreError::Keys { path: self.path.clone(), trouble }
    }
}

/// What stands in the database in place of a key.
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_file_is_read() {
        let good = format!("{FIRST_LINE}\n{} 0aff\n", hex(b"seal"));
        assert_eq!(parse(&good), Some(BTreeMap::from([("seal".to_owned(), vec![0x0a, 0xff])])));
        assert_eq!(parse(&format!("{FIRST_LINE}\n")), Some(BTreeMap::new()));
        for bad in ["", "\n", FIRST_LINE, "other\n", &good[..good.len() - 1], &good.replace("0aff", "0af")] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
