//! Keeps a second gateway away from a database: a locked file beside it that names its holder.

use crate::StoreError;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A claim on a database; the system takes it back when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Claims the database at `path`, or says who holds it.
    pub(super) fn claim(path: &Path) -> Result<Self, StoreError> {
        let open = |error: std::io::Error| StoreError::Open { path: beside(path), reason: error.kind() };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(beside(path)).map_err(open)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { path: path.to_owned(), pid: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(open(error)),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(open)?;
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file stays: removing it would let two openers lock two files of the same name.
        // Only its text goes, so that nobody reads the number of a process that has left.
        let _ = self.file.set_len(0);
        // Closing alone is not enough: a child that is just being started holds a copy of the file.
        let _ = self.file.unlock();
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    name.into()
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
