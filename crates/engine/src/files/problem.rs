//! What can go wrong with files.

use toolbooth_core::fault::{Blame, Fault};
use toolbooth_store::{BlobError, StoreError};

/// A file could not be taken in, found or handed out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// No name is left of what was given as one.
    #[error("the file has no name that could be kept")]
    BadName,
    /// It is larger than files may be.
    #[error("the file is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// It broke off before its end.
    #[error("the file broke off before its end")]
    CutShort,
    /// The user has as many as one user may.
    #[error("you have as many files, or bytes of them, as one user may keep")]
    Quota,
    /// There is no such file, or it is somebody else's.
    #[error("there is no such file")]
    Unknown,
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The content could not be kept or read.
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
