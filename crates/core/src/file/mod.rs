//! Callers' files: uploads, and artifacts that tools returned.

mod kind;
mod name;
mod viewer;

pub use kind::{DEFAULT_MIME, Presentation, clean_mime, guess_mime, presentation};
pub use name::{FileName, MAX_NAME_CHARS};
pub use viewer::{VIEWERS, viewer_for};

use crate::caller::Caller;
use crate::names::ServerName;
use uuid::Uuid;

/// The metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    /// Its id; the content is stored under the same id.
    pub id: Uuid,
    /// Its owner.
    pub user: String,
    /// The session it belongs to; a file without one is visible in all sessions of its owner.
    pub session: Option<String>,
    /// Its name.
    pub name: FileName,
    /// The version among files of this name, counted from 1.
    pub version: u32,
    /// Its MIME type.
    pub mime: String,
    /// Its length.
    pub size_bytes: u64,
    /// The SHA-256 of its content.
    pub sha256: [u8; 32],
    /// Where it came from.
    pub origin: FileOrigin,
    /// A description by its creator.
    pub description: Option<String>,
    /// The viewer that its creator suggests.
    pub viewer: Option<String>,
    /// When it was stored.
    pub created_ms: i64,
}

/// The origin of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOrigin {
    /// Its owner uploaded it.
    Upload,
    /// A tool returned it.
    Artifact {
        /// The call that made it.
        call: Uuid,
        /// The tool's server.
        server: ServerName,
        /// The server's own name of the tool.
        tool: String,
    },
}

impl FileOrigin {
    /// The word used in all interfaces.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Artifact { .. } => "artifact",
        }
    }
}

impl FileRow {
    /// The viewer that shows it in the console; `None` if it can only be downloaded.
    pub fn shown_with(&self) -> Option<&'static str> {
        viewer_for(self.viewer.as_deref(), &self.mime, &self.name)
    }

    /// Whether a caller may see, fetch and remove the file. Only its owner may.
    pub fn is_open_to(&self, caller: &Caller) -> bool {
        *self.user == *caller.user
    }
}
