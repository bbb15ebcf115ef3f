//! What is asked of files.

use toolbooth_core::file::FileRow;
use uuid::Uuid;

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
