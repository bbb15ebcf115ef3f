//! Errors of transfers between stores.

use crate::StoreError;
use std::path::PathBuf;
use toolbooth_core::fault::{Blame, Fault};

/// Errors of `store migrate`, `store backup` and `store restore`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A store in memory has nothing to copy, and keeps nothing.
    #[error("a store in memory cannot be copied")]
    Memory,
    /// The destination has records that did not come from this source.
    #[error("the destination is not empty: it has {rows} rows in `{table}`")]
    NotEmpty {
        /// A table with rows.
        table: &'static str,
        /// Their number.
        rows: u64,
    },
    /// After the copy, a table has a different number of rows.
    #[error("`{table}` has {copied} rows in the destination instead of {expected}")]
    Count {
        /// The table.
        table: &'static str,
        /// The rows of the source.
        expected: u64,
        /// The rows of the destination.
        copied: u64,
    },
    /// The audit of the destination cannot be verified.
    #[error("the audit of the destination does not verify (row {row})")]
    Audit {
        /// The first bad row.
        row: u64,
    },
    /// The backup file could not be read or written.
    #[error("{} could not be read or written: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kind of IO error.
        reason: std::io::ErrorKind,
    },
    /// The file is not a complete backup.
    #[error("{} is not a complete backup: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: &'static str,
    },
}

impl Fault for TransferError {
    fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Memory => "store.memory",
            Self::NotEmpty { .. } => "store.not-empty",
            Self::Count { .. } | Self::Audit { .. } => "store.copy-differs",
            Self::File { .. } => "store.backup-file",
            Self::Damaged { .. } => "store.backup-damaged",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::Store(error) => error.blame(),
            Self::Memory | Self::NotEmpty { .. } | Self::File { .. } | Self::Damaged { .. } => Blame::Caller,
            Self::Count { .. } | Self::Audit { .. } => Blame::Gateway,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Store(error) => return error.hint(),
            Self::Memory => "use `sqlite:PATH` or `postgres://…`".into(),
            Self::NotEmpty { .. } => {
                "copy to an empty database, or continue an earlier copy of the same source".into()
            }
            Self::Count { .. } => {
                "make sure that no gateway uses the two stores during the copy, and copy to an empty database"
                    .into()
            }
            Self::Audit { .. } => {
                "run `toolbooth audit verify` on the source: it may have the same problem".into()
            }
            Self::File { .. } => "check the path, its permissions and the free space".into(),
            Self::Damaged { .. } => "use another backup".into(),
        })
    }
}
