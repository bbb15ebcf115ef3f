//! What can go wrong with the store, and what to do then.

use crate::sqlite::KeyTrouble;
use std::path::PathBuf;
use toolbooth_core::fault::{Blame, Fault};
use uuid::Uuid;

/// The store could not do what was asked. Cloned for every caller whose write shared a commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// This build has no such backend.
    #[error("this build has no {backend} store")]
    NotBuilt {
        /// The backend's name.
        backend: &'static str,
    },
    /// Another gateway holds the data.
    #[error("{} is in use by {}", path.display(), holder(*pid))]
    InUse {
        /// The database.
        path: PathBuf,
        /// The other gateway's process, where it is known.
        pid: Option<u32>,
    },
    /// The database or its folder could not be made or opened.
    #[error("{} could not be opened: {reason}", path.display())]
    Open {
        /// What was opened.
        path: PathBuf,
        /// Why not.
        reason: std::io::ErrorKind,
    },
    /// The key file does not fit the database.
    #[error("the key file {} {trouble}", path.display())]
    Keys {
        /// The key file.
        path: PathBuf,
        /// What is wrong with it.
        trouble: KeyTrouble,
    },
    /// The file is another program's database.
    #[error("{} is a database, but not one of Toolbooth's", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is no database, or a damaged one.
    #[error("{} is damaged or is no database", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
    },
    /// A later version of Toolbooth has changed the database.
    #[error("{} was written by a newer Toolbooth (schema {found}, this one knows {known})", path.display())]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema this version knows.
        known: i64,
    },
    /// The schema is not what its version says.
    #[error("{} has schema {version} in another form than this Toolbooth", path.display())]
    OtherSchema {
        /// The database.
        path: PathBuf,
        /// The schema's version.
        version: i64,
    },
    /// The database would not take or give something.
    #[error("the store failed: {trouble}")]
    Failed {
        /// What the database said.
        trouble: Trouble,
    },
    /// A value is too long, too short or not storable.
    #[error("`{field}` cannot be stored: expected {expected}")]
    Unfit {
        /// The value's name.
        field: &'static str,
        /// What would do.
        expected: String,
    },
    /// Another intent or outcome is kept under this call's id.
    #[error("call {call_id} is already kept with other content")]
    Conflict {
        /// The call.
        call_id: Uuid,
    },
    /// An outcome came for a call without an intent.
    #[error("call {call_id} has no intent in the journal")]
    NoIntent {
        /// The call.
        call_id: Uuid,
    },
    /// A step came for a plan that is closed or not there.
    #[error("plan {plan} is not open")]
    NoPlan {
        /// The plan.
        plan: Uuid,
    },
    /// Another record has this name.
    #[error("there is another {what} `{name}` already")]
    Taken {
        /// What there is.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Too much is kept already.
    #[error("the store holds as many {what} as it may")]
    Full {
        /// What there is too much of.
        what: &'static str,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// What a database said when it failed; its own words go to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// No room on the disk.
    #[error("no room is left on the disk")]
    DiskFull,
    /// Reading or writing the disk failed.
    #[error("the disk could not be read or written")]
    Disk,
    /// The database may not be written.
    #[error("the database is read-only")]
    ReadOnly,
    /// Somebody else kept the database locked for too long.
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

impl Fault for StoreError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotBuilt { .. } => "store.not-built",
            Self::InUse { .. } => "store.in-use",
            Self::Open { .. } => "store.open",
            Self::Keys { trouble, .. } => match trouble {
                KeyTrouble::Missing => "store.keys-missing",
                KeyTrouble::Other => "store.keys-other",
                KeyTrouble::Damaged => "store.keys-damaged",
                KeyTrouble::Open => "store.keys-open",
            },
            Self::Foreign { .. } => "store.foreign",
            Self::Corrupt { .. } => "store.corrupt",
            Self::NewerSchema { .. } => "store.newer-schema",
            Self::OtherSchema { .. } => "store.other-schema",
            Self::Failed { trouble } => match trouble {
                Trouble::DiskFull => "store.disk-full",
                Trouble::Disk => "store.disk",
                Trouble::ReadOnly => "store.read-only",
                Trouble::Busy => "store.busy",
                Trouble::Other => "store.failed",
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
            // Places and states are the gateway's own doing; texts come from whoever sent them.
            Self::Unfit { field: "plan" | "state" | "duration_ms", .. } => Blame::Gateway,
            Self::Unfit { .. } => Blame::Caller,
            _ => Blame::Gateway,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotBuilt { .. } => "use `sqlite:PATH`".into(),
            Self::InUse { pid: Some(pid), .. } => {
                format!("stop process {pid}, or give this gateway a data directory of its own")
            }
            Self::InUse { pid: None, .. } => {
                "stop the other gateway, or give this one a data directory of its own".into()
            }
            Self::Open { .. } => {
                "check that the folder exists or can be made, and who may write to it".into()
            }
            Self::Keys { path, trouble: KeyTrouble::Open } => {
                format!("look at who wrote it; `chown` it to the gateway's user and `chmod 600 {}`", path.display())
            }
            Self::Keys { .. } => {
                "restore it from the backup that the database came from: without it nothing that was sealed can be opened".into()
            }
            Self::Foreign { .. } => "name another file: Toolbooth makes its own".into(),
            Self::Corrupt { path } => {
                format!("restore a backup, or move {} away to start with an empty store", path.display())
            }
            Self::NewerSchema { .. } => "run that newer version, or restore a backup made before it".into(),
            Self::OtherSchema { .. } => "run the version that wrote it, or restore a backup".into(),
            Self::Failed { trouble } => match trouble {
                Trouble::DiskFull => "free some space; nothing that was acknowledged is lost".into(),
                Trouble::Disk => "check the disk and the system's log".into(),
                Trouble::ReadOnly => "check who may write to the database and its folder".into(),
                Trouble::Busy => "close other programs that have the database open".into(),
                Trouble::Other => "look into the gateway's log for the database's own words".into(),
            },
            Self::Full { .. } => "wait until some expire, or use `sqlite:PATH`".into(),
            Self::NoPlan { .. } => "open another plan".into(),
            Self::Taken { .. } => "choose another name".into(),
            Self::Unfit { .. } | Self::Conflict { .. } | Self::NoIntent { .. } | Self::Closed => return None,
        };
        Some(hint)
    }
}
