//! The record of the key: where it is, and its fingerprint. It contains no secret.

use super::fault::SecretFault;
use super::key_place::KeyPlace;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The version of the record that this program writes and reads.
const VERSION: u32 = 1;

/// Where the key is, and which one it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    version: u32,
    /// Where the key is.
    pub place: KeyPlace,
    /// The fingerprint of the key, which is also its name in the keyring.
    pub fingerprint: String,
}

impl KeyRecord {
    /// The record of a key.
    pub fn new(place: KeyPlace, fingerprint: String) -> Self {
        Self { version: VERSION, place, fingerprint }
    }

    /// The path of the record in a data folder.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join("secrets.key.json")
    }

    /// Reads the record; `None` if it does not exist. A record that cannot be read is an error: without it a new key could take
    /// the place of the one that is in use.
    pub fn read(folder: &Path) -> Result<Option<Self>, SecretFault> {
        let path = Self::path(folder);
        let bad = |why: String| SecretFault::KeyRecord { path: path.clone(), why };
        let is_file = fs::metadata(&path).map(|about| about.is_file());
        let text = match is_file.and_then(|is_file| if is_file { fs::read(&path) } else { Ok(Vec::new()) }) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(bad(error.to_string())),
        };
        let record: Self =
            serde_json::from_slice(&text).map_err(|_| bad("it is not the record of a key".into()))?;
        match record.version == VERSION {
            true => Ok(Some(record)),
            false => Err(bad("it is from a later version of this program".into())),
        }
    }

    /// Writes the record atomically; it is on disk when this returns.
    pub fn write(&self, folder: &Path) -> Result<(), SecretFault> {
        let path = Self::path(folder);
        let write = || -> std::io::Result<()> {
            let mut draft = tempfile::NamedTempFile::new_in(folder)?;
            draft.write_all(&serde_json::to_vec_pretty(self)?)?;
            draft.as_file().sync_all()?;
            draft.persist(&path)?;
            fs::File::open(folder)?.sync_all()
        };
        write().map_err(|error| SecretFault::KeyFile { path: path.clone(), why: error.to_string() })
    }
}
