//! What can go wrong with blobs.

use std::io::ErrorKind;
use toolbooth_core::fault::{Blame, Fault};

/// A blob could not be written, read or removed. The words of whoever keeps it go to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// There is none.
    #[error("the content is not there")]
    Missing,
    /// No room is left.
    #[error("no room is left for files")]
    Full,
    /// Whoever keeps blobs did not let us in.
    #[error("the place for files may not be used")]
    Denied,
    /// The place cannot be reached or refused.
    #[error("the place for files did not do as asked")]
    Failed,
    /// The address names no place.
    #[error("`blobs.url` begins with none of `file:`, `s3://` and `memory:`")]
    BadUrl,
    /// This build has no such place.
    #[error("this build keeps no files on S3")]
    NotBuilt,
}

impl BlobError {
    pub(super) fn of_disk(error: &std::io::Error) -> Self {
        tracing::warn!(%error, "files cannot be kept or read");
        match error.kind() {
            ErrorKind::NotFound => Self::Missing,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::Denied,
            _ => Self::Failed,
        }
    }
}

impl From<object_store::Error> for BlobError {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error;
        match &error {
            Error::NotFound { .. } => return Self::Missing,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                tracing::warn!(%error, "files cannot be kept or read");
                return Self::Denied;
            }
            _ => {}
        }
        // What lies beneath says more than what wraps it.
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<std::io::Error>() {
                return Self::of_disk(error);
            }
            cause = error.source();
        }
        tracing::warn!(%error, "files cannot be kept or read");
        Self::Failed
    }
}

impl Fault for BlobError {
    fn code(&self) -> &'static str {
        match self {
            Self::Missing => "blobs.missing",
            Self::Full => "blobs.full",
            Self::Denied => "blobs.denied",
            Self::Failed => "blobs.failed",
            Self::BadUrl => "blobs.bad-url",
            Self::NotBuilt => "blobs.not-built",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing => "somebody took it away behind the gateway's back; upload it again".into(),
            Self::Full => "free some space, or remove files".into(),
            Self::Denied => "check who may write there, or the keys under `blobs`".into(),
            Self::Failed => "the gateway's log says more; try again".into(),
            Self::BadUrl => "write `file:PATH`, or `s3://BUCKET/PREFIX`".into(),
            Self::NotBuilt => "use `file:PATH`, or a build with the feature `s3`".into(),
        })
    }
}
