//! What is asked of files.

use crate::StoreError;
use crate::limits::MAX_FILES_OF_USER;
use toolbooth_core::file::FileRow;
use uuid::Uuid;

/// How much of files one user may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileQuota {
    /// The most files, older versions included; `MAX_FILES_OF_USER` at the most.
    pub files: u64,
    /// The most bytes of all of them together.
    pub bytes: u64,
}

impl Default for FileQuota {
    fn default() -> Self {
        Self { files: MAX_FILES_OF_USER as u64, bytes: u64::MAX }
    }
}

impl FileQuota {
    /// Whether a file of this size may come to so many files of so many bytes.
    pub(crate) fn check(&self, files: u64, bytes: u64, size_bytes: u64) -> Result<(), StoreError> {
        if files >= self.files.min(MAX_FILES_OF_USER as u64) {
            return Err(StoreError::Full { what: "files of one user" });
        }
        if bytes.saturating_add(size_bytes) > self.bytes {
            return Err(StoreError::Full { what: "bytes of files of one user" });
        }
        Ok(())
    }
}

/// Which files of a user are asked for; everything given must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileFilter {
    /// Whose.
    pub user: String,
    /// Those that a call in this session can name: its own, and those without a session.
    pub session: Option<String>,
    /// Of this name.
    pub name: Option<String>,
    /// That came before this one.
    pub before: Option<Uuid>,
    /// At most so many; `MAX_FILES_PAGE` at the most.
    pub limit: Option<u32>,
}

impl FileFilter {
    /// Whether a file is asked for, its place in the order aside.
    pub(crate) fn wants(&self, file: &FileRow) -> bool {
        file.user == self.user
            && (self.session.is_none() || file.session.is_none() || file.session == self.session)
            && self.name.as_deref().is_none_or(|name| name == file.name.as_str())
    }
}
