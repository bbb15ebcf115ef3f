//! The key that seals stored secrets: created once, read when it is needed, and moved between the keyring and a file.
//!
//! A key is never replaced. If values are sealed and their key is missing, that is an error, because a new key could not open
//! them.

use super::fault::SecretFault;
use super::key_file::{self, SealingKey};
use super::key_place::KeyPlace;
use super::key_record::KeyRecord;
use super::keyring::Keyring;
use super::secret_files::SecretFiles;
use crate::render;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_config::{SEALED_PREFIX, Sources, ValueSealer};
use toolbooth_core::fault::Problem;
use toolbooth_wire::state::Sealer;

/// How long a failure of a keyring is remembered: a load has many values, and a keyring may take its whole time limit.
const FAILURE_LIFE: Duration = Duration::from_secs(10);

/// The key of the user's stored secrets.
#[derive(Debug)]
pub struct SecretsKey {
    /// The data folder of the user. It does not depend on `--data-dir`, as the files with secrets do not.
    folder: PathBuf,
    files: SecretFiles,
    last: Mutex<Option<LastRead>>,
}

/// The last attempt to read the key.
#[derive(Debug, Clone)]
struct LastRead {
    record: Option<KeyRecord>,
    at: Instant,
    key: Result<Option<SealingKey>, SecretFault>,
}

/// The result of moving the key.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyMove {
    /// There was no key; it was created at this place.
    Created,
    /// The key was at this place already.
    None,
    /// The key was moved.
    Moved,
}

impl SecretsKey {
    /// The key of the user of this process. There is one instance, because a keyring may ask its user.
    pub fn of(sources: &Sources) -> Arc<Self> {
        static KEY: OnceLock<Arc<SecretsKey>> = OnceLock::new();
        let new = || Self {
            folder: sources.default_data_dir(),
            files: SecretFiles::of(sources),
            last: Mutex::new(None),
        };
        KEY.get_or_init(|| Arc::new(new())).clone()
    }

    /// Where the key is; `None` if it was not created yet.
    pub fn place(&self) -> Result<Option<KeyPlace>, SecretFault> {
        Ok(match KeyRecord::read(&self.folder)? {
            Some(record) => Some(record.place),
            None => key_file::path(&self.folder).exists().then_some(KeyPlace::File),
        })
    }

    /// The path of the key file.
    pub fn file(&self) -> PathBuf {
        key_file::path(&self.folder)
    }

    /// The key, or `None` if none was created yet.
    fn key(&self) -> Result<Option<SealingKey>, SecretFault> {
        let record = KeyRecord::read(&self.folder)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(LastRead { record: before, at, key }) = last.as_ref() {
            let is_same =
                |key: &SealingKey| record.as_ref().is_some_and(|now| now.fingerprint == key.fingerprint());
            match key {
                // A move does not change the key.
                Ok(Some(key)) if is_same(key) || *before == record => return Ok(Some(key.clone())),
                Err(fault @ SecretFault::Keyring { .. })
                    if *before == record && at.elapsed() < FAILURE_LIFE =>
                {
                    return Err(fault.clone());
                }
                _ => {}
            }
        }
        let key = self.stored(record.as_ref());
        *last = Some(LastRead { record, at: Instant::now(), key: key.clone() });
        key
    }

    /// Reads the key from its place.
    fn stored(&self, record: Option<&KeyRecord>) -> Result<Option<SealingKey>, SecretFault> {
        let Some(record) = record else { return key_file::read(&self.folder) };
        let KeyRecord { place, fingerprint, .. } = record;
        let stored = match place {
            KeyPlace::File => key_file::read(&self.folder)?,
            KeyPlace::Keyring => keyring()?.find(fingerprint)?,
        };
        match stored {
            Some(key) if key.fingerprint() == *fingerprint => Ok(Some(key)),
            Some(_) => Err(SecretFault::OtherKey { place: *place, record: KeyRecord::path(&self.folder) }),
            None => Err(SecretFault::KeyLost { place: *place, record: KeyRecord::path(&self.folder) }),
        }
    }

    /// The key, which is created if nothing was sealed yet.
    fn key_or_new(&self) -> Result<SealingKey, SecretFault> {
        if let Some(key) = self.key()? {
            return Ok(key);
        }
        let _lock = self.lock()?;
        // Another command may have created it in the meantime.
        let record = KeyRecord::read(&self.folder)?;
        if let Some(key) = self.stored(record.as_ref())? {
            return Ok(key);
        }
        let key = self.new_key()?;
        let (place, why) = match Keyring::here().map(|keyring| keyring.store(&key)) {
            Some(Ok(())) => (KeyPlace::Keyring, String::new()),
            Some(Err(fault)) => (KeyPlace::File, format!(": {fault}")),
            None => (KeyPlace::File, ": no keyring was found".to_owned()),
        };
        if place == KeyPlace::File {
            key_file::create(&self.folder, &key)?;
        }
        KeyRecord::new(place, key.fingerprint()).write(&self.folder)?;
        let note = match place {
            KeyPlace::Keyring => "the key of your stored secrets is in the keyring".to_owned(),
            KeyPlace::File => {
                format!("the key of your stored secrets is in {}{why}", render::path(&self.file()))
            }
        };
        render::complain(&format!("note: {}\n", render::wrap(&note, 6)));
        Ok(key)
    }

    /// A new key, unless values are sealed with one that is lost.
    fn new_key(&self) -> Result<SealingKey, SecretFault> {
        match self.files.have_sealed_values()? {
            true => Err(SecretFault::NoKey { folder: self.folder.clone() }),
            false => SealingKey::random(),
        }
    }

    /// Moves the key. The new place has it before the record changes, and the old place loses it last, so that a move that is
    /// interrupted leaves a key where the record says.
    pub fn move_to(&self, to: KeyPlace) -> Result<KeyMove, SecretFault> {
        let _lock = self.lock()?;
        let record = KeyRecord::read(&self.folder)?;
        let from = record.as_ref().map_or(KeyPlace::File, |record| record.place);
        let (key, outcome) = match self.stored(record.as_ref())? {
            None => (self.new_key()?, KeyMove::Created),
            Some(key) if from == to => (key, KeyMove::None),
            Some(key) => (key, KeyMove::Moved),
        };
        if outcome != KeyMove::None {
            self.put(to, &key)?;
        }
        KeyRecord::new(to, key.fingerprint()).write(&self.folder)?;
        match (to, &outcome) {
            // An interrupted move may have left the file.
            (KeyPlace::Keyring, _)
                if key_file::read(&self.folder).is_ok_and(|left| left.as_ref() == Some(&key)) =>
            {
                key_file::remove(&self.folder)?;
            }
            (KeyPlace::File, KeyMove::Moved) => keyring()?.remove(&key.fingerprint())?,
            (KeyPlace::File, KeyMove::None) => {
                // The same for the keyring, which need not exist.
                let _ = Keyring::here().map(|keyring| keyring.remove(&key.fingerprint()));
            }
            _ => {}
        }
        Ok(outcome)
    }

    /// Writes the key to a place, and reads it back.
    fn put(&self, place: KeyPlace, key: &SealingKey) -> Result<(), SecretFault> {
        match place {
            KeyPlace::Keyring => return keyring()?.store(key),
            // A move that was interrupted has written it.
            KeyPlace::File if key_file::read(&self.folder)?.is_none() => key_file::create(&self.folder, key)?,
            KeyPlace::File => {}
        }
        match key_file::read(&self.folder)? {
            Some(stored) if stored == *key => Ok(()),
            _ => Err(SecretFault::OtherKey { place, record: KeyRecord::path(&self.folder) }),
        }
    }

    fn lock(&self) -> Result<KeyLock, SecretFault> {
        let mut folder = DirBuilder::new();
        folder
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(|error| SecretFault::KeyFile { path: self.folder.clone(), why: error.to_string() })?;
        KeyLock::take(&self.folder)
    }
}

fn keyring() -> Result<Keyring, SecretFault> {
    Keyring::here().ok_or_else(|| SecretFault::Keyring {
        why: match cfg!(target_os = "macos") {
            true => "the program `security` was not found",
            false => "the session bus was not found, or `secret-tool` is not installed",
        }
        .into(),
    })
}

impl ValueSealer for SecretsKey {
    fn seal(&self, name: &str, value: &str) -> Result<String, Problem> {
        let key = self.key_or_new()?;
        let sealed = Sealer::new(key.bytes()).seal(value.as_bytes(), &context(name));
        Ok(format!("{SEALED_PREFIX}{}", sealed.ok_or(SecretFault::NoRandomness)?))
    }

    fn open(&self, name: &str, sealed: &str) -> Result<String, Problem> {
        let unopened = || SecretFault::Unopened { name: name.to_owned() };
        let sealed = sealed.strip_prefix(SEALED_PREFIX).ok_or(SecretFault::LaterVersion)?;
        let key = self.key()?.ok_or_else(|| SecretFault::NoKey { folder: self.folder.clone() })?;
        let value = Sealer::new(key.bytes()).open_stored(sealed, &context(name)).ok_or_else(unopened)?;
        Ok(String::from_utf8(value).map_err(|_| unopened())?)
    }
}

/// What a value is bound to: its purpose, and the name of its variable.
fn context(name: &str) -> Vec<u8> {
    [b"toolbooth variable\0", name.as_bytes()].concat()
}

/// The lock of the commands that create or move the key.
struct KeyLock {
    _file: File,
}

impl KeyLock {
    /// Waits for the lock, somewhat longer than a keyring may take.
    fn take(folder: &Path) -> Result<Self, SecretFault> {
        const TRIES: u32 = 800;
        const PAUSE: Duration = Duration::from_millis(50);
        let path = folder.join("secrets.key.lock");
        let failed =
            |error: std::io::Error| SecretFault::KeyFile { path: path.clone(), why: error.to_string() };
        let mut options = OpenOptions::new();
        let file =
            options.create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(failed)?;
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        Err(SecretFault::Busy)
    }
}
