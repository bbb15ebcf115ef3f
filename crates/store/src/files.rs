//! Quotas and filters for files.

use crate::StoreError;
use crate::limits::MAX_FILES_OF_USER;
use toolbooth_core::file::FileRow;
use uuid::Uuid;

/// The quota of files of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileQuota {
    /// The most files, including older versions; at most `MAX_FILES_OF_USER`.
    pub files: u64,
    /// The most bytes of all files together.
    pub bytes: u64,
}

impl Default for FileQuota {
    fn default() -> Self {
        Self { files: MAX_FILES_OF_USER as u64, bytes: u64::MAX }
    }
}

impl FileQuota {
    /// Checks that a file of `size_bytes` may be added to `files` files with `bytes` bytes.
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

/// Selects files of a user; all given fields must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileFilter {
    /// The owner of the files.
    pub user: String,
    /// Files that a call in this session can name: the session's own, and those without a session.
    pub session: Option<String>,
    /// Files with this name.
    pub name: Option<String>,
    /// Files that were added before this one.
    pub before: Option<Uuid>,
    /// The page size; at most `MAX_FILES_PAGE`.
    pub limit: Option<u32>,
}

impl FileFilter {
    /// Whether the filter matches a file; does not check `before`.
    pub(crate) fn matches(&self, file: &FileRow) -> bool {
        file.user == self.user
            && (self.session.is_none() || file.session.is_none() || file.session == self.session)
            && self.name.as_deref().is_none_or(|name| name == file.name.as_str())
    }
}
