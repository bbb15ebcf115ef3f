//! Errors of the store, with hints.

use std::path::PathBuf;
use toolbooth_core::fault::{Blame, Fault};
use uuid::Uuid;

/// Errors of the store. Cloned for every caller whose write was part of a failed commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another gateway holds the data.
    #[error("{} is in use by {}", path.display(), holder(*pid))]
    InUse {
        /// The database.
        path: PathBuf,
        /// The other gateway's process, if it is known.
        pid: Option<u32>,
    },
    /// The database or its folder could not be created or opened.
    #[error("{} could not be opened: {reason}", path.display())]
    Open {
        /// The path that could not be opened.
        path: PathBuf,
        /// The kind of IO error.
        reason: std::io::ErrorKind,
    },
    /// The database server cannot be used.
    #[error("{address} cannot be used: {reason}")]
    Unreachable {
        /// Its address, without user and password.
        address: String,
        /// Why it cannot be used.
        reason: &'static str,
    },
    /// The key file does not match the database, or cannot be used.
    #[error("the key file {} {problem}", path.display())]
    Keys {
        /// The key file.
        path: PathBuf,
        /// The problem with it.
        problem: KeyFileError,
    },
    /// The file is another program's database.
    #[error("{} is a database of another program", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged or is not a database.
    #[error("{} is damaged or is not a database", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
    },
    /// A newer version of Toolbooth has migrated the database.
    #[error("{} was written by a newer Toolbooth (schema {found}, this version supports {known})", path.display())]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema that this version supports.
        known: i64,
    },
    /// The schema differs from the one that this version of Toolbooth has under the same number.
    #[error("{} has a schema {version} that differs from schema {version} of this Toolbooth", path.display())]
    OtherSchema {
        /// The database.
        path: PathBuf,
        /// The schema's version.
        version: i64,
    },
    /// A read or write of the database failed.
    #[error("the store failed: {failure}")]
    Failed {
        /// The kind of failure.
        failure: DatabaseFailure,
    },
    /// A value is too long, too short or not valid.
    #[error("`{field}` cannot be stored: expected {expected}")]
    Unfit {
        /// The value's name.
        field: &'static str,
        /// A description of a valid value.
        expected: String,
    },
    /// A different record with this call's id is already stored.
    #[error("call {call_id} is already stored with different content")]
    Conflict {
        /// The call.
        call_id: Uuid,
    },
    /// The outcome of a call without an intent was written.
    #[error("call {call_id} ended, but its start was not recorded")]
    NoIntent {
        /// The call.
        call_id: Uuid,
    },
    /// A step was added to a plan that is closed or does not exist.
    #[error("plan {plan} is not open")]
    NoPlan {
        /// The plan.
        plan: Uuid,
    },
    /// A different record with this name already exists.
    #[error("another {what} `{name}` already exists")]
    Taken {
        /// The kind of record.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A limit of the store is reached.
    #[error("the store's limit of {what} is reached")]
    Full {
        /// The kind of record that the limit counts.
        what: &'static str,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Kinds of database failures. The database's own error text goes to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseFailure {
    /// The disk is full.
    #[error("the disk is full")]
    DiskFull,
    /// Reading or writing the disk failed.
    #[error("the disk could not be read or written")]
    Disk,
    /// The database cannot be written.
    #[error("the database is read-only")]
    ReadOnly,
    /// Another program kept the database locked for too long.
    #[error("the database stayed locked by another program")]
    Busy,
    /// Anything else.
    #[error("the database refused a statement")]
    Other,
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("another gateway (process {pid})"),
        None => "another gateway".into(),
    }
}

/// Problems with a key file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The file does not exist, or a key of the database is not in it.
    #[error("is missing, or lacks a key of this database")]
    Missing,
    /// A key in the file is not the key of the database.
    #[error("does not contain the keys of this database")]
    Other,
    /// The content of the file is not valid.
    #[error("is damaged")]
    Damaged,
    /// The file is not a regular file, or belongs to another user.
    #[error("is not a regular file owned by the gateway's user")]
    NotOwned,
}

impl Fault for StoreError {
    fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "store.in-use",
            Self::Open { .. } => "store.open",
            Self::Unreachable { .. } => "store.unreachable",
            Self::Keys { problem, .. } => match problem {
                KeyFileError::Missing => "store.keys-missing",
                KeyFileError::Other => "store.keys-other",
                KeyFileError::Damaged => "store.keys-damaged",
                KeyFileError::NotOwned => "store.keys-open",
            },
            Self::Foreign { .. } => "store.foreign",
            Self::Corrupt { .. } => "store.corrupt",
            Self::NewerSchema { .. } => "store.newer-schema",
            Self::OtherSchema { .. } => "store.other-schema",
            Self::Failed { failure } => match failure {
                DatabaseFailure::DiskFull => "store.disk-full",
                DatabaseFailure::Disk => "store.disk",
                DatabaseFailure::ReadOnly => "store.read-only",
                DatabaseFailure::Busy => "store.busy",
                DatabaseFailure::Other => "store.failed",
            },
            Self::Unfit { .. } => "store.unfit",
            Self::Conflict { .. } => "store.conflict",
            Self::NoIntent { .. } => "store.no-intent",
            Self::NoPlan { .. } => "store.no-plan",
            Self::Taken { .. } => "store.taken",
            Self::Full { .. } => "store.full",
            Self::Closed => "store.closed",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            // The gateway sets plans, states and durations; the other values come from the caller.
            Self::Unfit { field: "plan" | "state" | "duration_ms", .. } => Blame::Gateway,
            Self::Unfit { .. } => Blame::Caller,
            _ => Blame::Gateway,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::InUse { pid: Some(pid), .. } => {
                format!("stop process {pid}, or give this gateway a data directory of its own")
            }
            Self::InUse { pid: None, .. } => {
                "stop the other gateway, or give this one a data directory of its own".into()
            }
            Self::Open { .. } => "check that the folder exists or can be created, and its permissions".into(),
            Self::Unreachable { .. } => {
                "check `store.url`, and that PostgreSQL runs and lets this user in; the gateway reconnects automatically"
                    .into()
            }
            Self::Keys { path, problem: KeyFileError::NotOwned } => {
                format!(
                    "find out who wrote it; then `chown` it to the gateway's user and `chmod 600 {}`",
                    path.display()
                )
            }
            Self::Keys { .. } => {
                "restore it from the same backup as the database: without it, sealed data cannot be opened"
                    .into()
            }
            Self::Foreign { .. } => "choose another file: Toolbooth creates its own database".into(),
            Self::Corrupt { path } => {
                format!("restore a backup, or move {} away to start with an empty store", path.display())
            }
            Self::NewerSchema { .. } => "run that newer version, or restore a backup made before it".into(),
            Self::OtherSchema { .. } => "run the version that wrote it, or restore a backup".into(),
            Self::Failed { failure } => match failure {
                DatabaseFailure::DiskFull => "free some space; acknowledged writes are not lost".into(),
                DatabaseFailure::Disk => "check the disk and the system's log".into(),
                DatabaseFailure::ReadOnly => "check the permissions of the database and its folder".into(),
                DatabaseFailure::Busy => "close other programs that have the database open".into(),
                DatabaseFailure::Other => "see the gateway's log for the database's error message".into(),
            },
            Self::Full { .. } => "wait until some expire, or use `sqlite:PATH`".into(),
            Self::NoPlan { .. } => "open another plan".into(),
            Self::Taken { .. } => "choose another name".into(),
            Self::Unfit { .. } | Self::Conflict { .. } | Self::NoIntent { .. } | Self::Closed => return None,
        };
        Some(hint)
    }
}
