//! Errors of blobs.

use std::io::ErrorKind;
use toolbooth_core::fault::{Blame, Fault};

/// A blob could not be written, read or removed. The storage's own error text goes to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// The blob does not exist.
    #[error("the content of the file is missing")]
    Missing,
    /// The storage is full.
    #[error("the file storage is full")]
    Full,
    /// The storage refused access.
    #[error("access to the file storage was denied")]
    Denied,
    /// The storage cannot be reached or returned an error.
    #[error("the file storage failed")]
    Failed,
    /// The URL is not valid.
    #[error("`blobs.url` must begin with `file:`, `s3://` or `memory:`")]
    BadUrl,
    /// This build does not include the backend.
    #[error("this build does not support S3")]
    NotBuilt,
}

impl BlobError {
    pub(super) fn of_disk(error: &std::io::Error) -> Self {
        tracing::warn!(%error, "the file storage reported an error");
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
                tracing::warn!(%error, "the file storage reported an error");
                return Self::Denied;
            }
            _ => {}
        }
        // An IO error at the root is more precise than its wrappers.
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<std::io::Error>() {
                return Self::of_disk(error);
            }
            cause = error.source();
        }
        tracing::warn!(%error, "the file storage reported an error");
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
            Self::Missing => "another program removed it; upload it again".into(),
            Self::Full => "free some space, or remove files".into(),
            Self::Denied => "check the folder's permissions, or the keys under `blobs`".into(),
            Self::Failed => "see the gateway's log for the cause, and try again".into(),
            Self::BadUrl => "use `file:PATH` or `s3://BUCKET/PREFIX`".into(),
            Self::NotBuilt => "use `file:PATH`, or a build with the feature `s3`".into(),
        })
    }
}
