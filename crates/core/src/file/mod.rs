//! Files of callers: uploads, and artifacts that tools made.

mod kind;
mod name;

pub use kind::{DEFAULT_MIME, Presentation, clean_mime, guess_mime, presentation};
pub use name::{FileName, MAX_NAME_CHARS};

use crate::caller::Caller;
use crate::names::ServerName;
use uuid::Uuid;

/// What is known of a file besides its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    /// The file; its content is kept under the same id.
    pub id: Uuid,
    /// Whose it is.
    pub user: String,
    /// The session it belongs to; a file without one is in all sessions of its owner.
    pub session: Option<String>,
    /// Its name.
    pub name: FileName,
    /// Which file of this name it is, counted from 1.
    pub version: u32,
    /// What it holds: `type/subtype`.
    pub mime: String,
    /// Its length.
    pub size_bytes: u64,
    /// The SHA-256 of its content.
    pub sha256: [u8; 32],
    /// Where it came from.
    pub origin: FileOrigin,
    /// What whoever made it wrote about it.
    pub description: Option<String>,
    /// How it wants to be shown.
    pub viewer: Option<String>,
    /// When it came.
    pub created_ms: i64,
}

/// Where a file came from.
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
    /// The word used on every door.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Artifact { .. } => "artifact",
        }
    }
}

impl FileRow {
    /// Whether a caller may see, fetch and remove the file: its owner may, nobody else.
    pub fn is_open_to(&self, caller: &Caller) -> bool {
        *self.user == *caller.user
    }
}
