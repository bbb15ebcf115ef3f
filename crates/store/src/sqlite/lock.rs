//! The lock file of a database, which keeps a second gateway from opening it and holds the process id of the first.

use crate::StoreError;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An exclusive lock on a database; the kernel releases it when the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Locks the database at `path`; the error names the process that holds the lock.
    pub(super) fn claim(path: &Path) -> Result<Self, StoreError> {
        let open = |error: std::io::Error| StoreError::Open { path: lock_path(path), reason: error.kind() };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(lock_path(path)).map_err(open)?;
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
        // Only its text is removed, so that it never names a process that has ended.
        let _ = self.file.set_len(0);
        // Closing alone is not enough: a child process that is just starting holds a copy of the descriptor.
        let _ = self.file.unlock();
    }
}

fn lock_path(path: &Path) -> PathBuf {
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
