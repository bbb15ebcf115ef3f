//! The key as 32 bytes, and the file that stores it if the system does not have a keyring.

use super::fault::SecretFault;
use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use toolbooth_core::hex::{decode, encode};

/// The first line of the file.
const FIRST_LINE: &str = "toolbooth secrets key 1";
/// The largest size of the file.
const MAX_BYTES: u64 = 1 << 10;

/// A key that seals values.
#[derive(Clone, PartialEq, Eq)]
pub struct SealingKey([u8; 32]);

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKey(..)")
    }
}

impl SealingKey {
    /// A new random key.
    pub fn random() -> Result<Self, SecretFault> {
        let mut key = [0_u8; 32];
        getrandom::fill(&mut key).map_err(|_| SecretFault::NoRandomness)?;
        Ok(Self(key))
    }

    /// Reads a key from hexadecimal text.
    pub fn from_hex(text: &str) -> Option<Self> {
        decode(text.trim())?.try_into().ok().map(Self)
    }

    /// The key as hexadecimal text.
    pub fn hex(&self) -> String {
        encode(&self.0)
    }

    /// The bytes of the key.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A text by which the key is recognised, and that does not reveal it.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::new_with_prefix("toolbooth secrets key fingerprint\0").chain_update(self.0);
        encode(&digest.finalize()[..16])
    }
}

/// The path of the key file in a data folder.
pub fn path(folder: &Path) -> PathBuf {
    folder.join("secrets.key")
}

/// Reads the key file; `None` if it does not exist. A file that other users could read or have written is refused.
pub fn read(folder: &Path) -> Result<Option<SealingKey>, SecretFault> {
    let path = path(folder);
    let bad = |why: &str| SecretFault::KeyFile { path: path.clone(), why: why.to_owned() };
    let mut options = OpenOptions::new();
    // A named pipe would wait for a writer.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match options.read(true).custom_flags(flags.bits()).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) if path.is_symlink() => return Err(bad("it is a link")),
        Err(error) => return Err(bad(&error.to_string())),
    };
    let about = file.metadata().map_err(|error| bad(&error.to_string()))?;
    if !about.is_file() {
        return Err(bad("it is not a regular file"));
    }
    if about.uid() != nix::unistd::geteuid().as_raw() {
        return Err(bad("it belongs to another user"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(bad("other users may read or write it"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(|_| bad("it is damaged"))?;
    let key = text.strip_prefix(FIRST_LINE).and_then(|rest| SealingKey::from_hex(rest.strip_prefix('\n')?));
    key.map(Some).ok_or_else(|| bad("it is damaged"))
}

/// Writes the key file, which must not exist. It is complete and on disk when it appears under its name.
pub fn create(folder: &Path, key: &SealingKey) -> Result<(), SecretFault> {
    let path = path(folder);
    let write = || -> std::io::Result<()> {
        // Created with O_EXCL and mode 600.
        let mut draft = tempfile::Builder::new().prefix(".secrets.key").tempfile_in(folder)?;
        draft.write_all(format!("{FIRST_LINE}\n{}\n", key.hex()).as_bytes())?;
        draft.as_file().sync_all()?;
        draft.persist_noclobber(&path)?;
        fs::File::open(folder)?.sync_all()
    };
    write().map_err(|error| SecretFault::KeyFile { path: path.clone(), why: error.to_string() })
}

/// Removes the key file, if it exists.
pub fn remove(folder: &Path) -> Result<(), SecretFault> {
    let path = path(folder);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(SecretFault::KeyFile { path, why: error.to_string() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use toolbooth_core::fault::Fault;

    #[test]
    fn a_key_file_that_others_may_read_or_that_is_damaged_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        assert_eq!(read(folder).expect("no file"), None);
        let key = SealingKey::random().expect("random numbers");
        create(folder, &key).expect("created");
        assert_eq!(read(folder).expect("readable"), Some(key.clone()));
        assert_eq!(fs::metadata(path(folder)).expect("metadata").permissions().mode() & 0o777, 0o600);
        assert!(
            create(folder, &SealingKey::random().expect("random numbers")).is_err(),
            "an existing key stays"
        );
        assert_eq!(read(folder).expect("readable"), Some(key));
        fs::set_permissions(path(folder), PermissionsExt::from_mode(0o640)).expect("set");
        assert_eq!(read(folder).expect_err("refused").code(), "secret.key-file");
        fs::set_permissions(path(folder), PermissionsExt::from_mode(0o600)).expect("set");
        fs::write(path(folder), format!("{FIRST_LINE}\nabcd\n")).expect("written");
        assert!(read(folder).expect_err("refused").to_string().contains("damaged"));
        remove(folder).expect("removed");
        symlink(folder.join("elsewhere"), path(folder)).expect("a link");
        assert_eq!(read(folder).expect_err("refused").code(), "secret.key-file");
    }
}
