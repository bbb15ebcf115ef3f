//! Errors of file operations.

use toolbooth_core::fault::{Blame, Fault};
use toolbooth_store::{BlobError, StoreError};

/// Why a file could not be stored, found or delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// Nothing is left of the name after sanitizing.
    #[error("the file has no valid name")]
    BadName,
    /// It is larger than the limit.
    #[error("the file is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// It ended before its content was complete.
    #[error("the file ended before its content was complete")]
    CutShort,
    /// The user's quota is used up.
    #[error("your limit for the number or the total size of files is reached")]
    Quota,
    /// The file does not exist, or belongs to another user.
    #[error("there is no such file")]
    Unknown,
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The content could not be written or read.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl Fault for FileProblem {
    fn code(&self) -> &'static str {
        match self {
            Self::BadName => "file.bad-name",
            Self::TooLarge { .. } => "file.too-large",
            Self::CutShort => "file.cut-short",
            Self::Quota => "files.quota",
            Self::Unknown => "file.unknown",
            Self::Store(error) => error.code(),
            Self::Blob(error) => error.code(),
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::Store(error) => error.blame(),
            Self::Blob(error) => error.blame(),
            _ => Blame::Caller,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::BadName => Some("give it a name such as report.pdf".into()),
            Self::TooLarge { .. } => Some("`files.max_upload_bytes` sets the limit".into()),
            Self::CutShort => Some("send it again".into()),
            Self::Quota => Some(
                "remove some: `toolbooth files rm`; `files.user_files` and `files.user_bytes` set the limits"
                    .into(),
            ),
            Self::Unknown => Some("`toolbooth files ls` shows your files".into()),
            Self::Store(error) => error.hint(),
            Self::Blob(error) => error.hint(),
        }
    }
}
