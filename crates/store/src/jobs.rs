//! Rows of jobs, their runs, and tasks: filters, limits and rules that all backends share.
//!
//! A row is a JSON document with a few columns for queries. Every change names the time of the last change that it is
//! based on, so that of several gateways that change one row, one wins; the others read it again. A run is claimed in
//! the same way: the winner writes itself and the end of its lease into the row.

use crate::StoreError;
use crate::limits::{optional, size, text};
use async_trait::async_trait;
use toolbooth_core::audit::AuditEntry;

/// The most jobs of one user.
pub const MAX_JOBS_OF_USER: usize = 500;
/// The most tasks of one user.
pub const MAX_TASKS_OF_USER: usize = 5_000;
/// The most MCP tasks of one user.
pub const MAX_CALL_TASKS_OF_USER: usize = 500;
/// How long an MCP task is kept after its creation.
pub const CALL_TASK_MS: i64 = 24 * 3_600_000;
/// The most rows in one page.
pub const MAX_WORK_PAGE: u32 = 1_000;
/// The most bytes a row's document may have.
pub const MAX_WORK_BYTES: usize = 8 << 20;
/// The most changes of one transaction.
pub const MAX_WORK_CHANGES: usize = 16;
/// How long ended runs and tasks are kept.
pub const ENDED_WORK_MS: i64 = 30 * 24 * 3_600_000;
/// The most runs and tasks in all; beyond it, the oldest ended ones are deleted.
pub const MAX_ENDED_WORK: u32 = 20_000;

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// A job: its schedule and state.
    Job,
    /// A run of a job.
    Run,
    /// A task.
    Task,
    /// A call that its client follows as an MCP task.
    CallTask,
}

impl WorkKind {
    /// The word in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Run => "run",
            Self::Task => "task",
            Self::CallTask => "call_task",
        }
    }

    /// The kind with this word.
    pub(crate) fn of(word: &str) -> Result<Self, StoreError> {
        [Self::Job, Self::Run, Self::Task, Self::CallTask]
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| StoreError::Unfit { field: "state", expected: "a kind of work".into() })
    }

    /// Whether rows of this kind are deleted some time after they ended.
    pub(crate) fn ends_with(self, state: &str) -> bool {
        match self {
            // A call task is deleted by its age.
            Self::Job | Self::CallTask => false,
            Self::Run => matches!(state, "succeeded" | "failed" | "cancelled" | "missed"),
            Self::Task => matches!(state, "done" | "cancelled"),
        }
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkRow {
    /// Its kind.
    pub kind: WorkKind,
    /// Its id, unique within the kind.
    pub id: String,
    /// The id of the job of a run.
    pub parent: Option<String>,
    /// The user it belongs to.
    pub user: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: String,
    /// When a gateway must look at it: the next time of a job, the end of the lease of a run.
    pub due_ms: Option<i64>,
    /// When it was created.
    pub created_ms: i64,
    /// When it was changed.
    pub updated_ms: i64,
    /// The document, as JSON.
    pub body: String,
}

/// A change of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkChange {
    /// Adds a row whose id is new.
    Add(WorkRow),
    /// Replaces a row that was last changed at this time.
    Replace {
        /// The time of the last change.
        expected_ms: i64,
        /// The row after the change.
        row: WorkRow,
    },
    /// Deletes a row that was last changed at this time, and the runs of a job.
    Remove {
        /// Its kind.
        kind: WorkKind,
        /// Its id.
        id: String,
        /// The time of the last change.
        expected_ms: i64,
    },
}

impl WorkChange {
    /// The kind and id of the row.
    pub(crate) fn key(&self) -> (WorkKind, &str) {
        match self {
            Self::Add(row) | Self::Replace { row, .. } => (row.kind, &row.id),
            Self::Remove { kind, id, .. } => (*kind, id),
        }
    }

    /// Whether the change fits the row as it is.
    pub(crate) fn fits(&self, present: Option<&WorkRow>) -> bool {
        match self {
            Self::Add(_) => present.is_none(),
            Self::Replace { expected_ms, .. } | Self::Remove { expected_ms, .. } => {
                present.is_some_and(|row| row.updated_ms == *expected_ms)
            }
        }
    }
}

/// The result of changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WorkUpdate {
    /// All of them were made.
    #[default]
    Won,
    /// None of them was made, because a row is not as expected; the row as it is, if it exists.
    Lost(Option<Box<WorkRow>>),
}

/// Whether rows are read with their documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowBodies {
    /// They are.
    Included,
    /// They are not: each body is empty.
    LeftOut,
}

/// Selects rows; all given fields must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFilter {
    /// The kind.
    pub kind: WorkKind,
    /// Rows of this user.
    pub user: Option<String>,
    /// Runs of this job.
    pub parent: Option<String>,
    /// Rows with this name.
    pub name: Option<String>,
    /// Rows in one of these states; empty means any state.
    pub states: Vec<String>,
    /// Rows that were added before the one with this id.
    pub before: Option<String>,
    /// The page size; at most `MAX_WORK_PAGE`.
    pub limit: Option<u32>,
    /// Whether the documents are read.
    pub bodies: RowBodies,
}

impl WorkFilter {
    /// All rows of a kind.
    pub fn of(kind: WorkKind) -> Self {
        Self {
            kind,
            user: None,
            parent: None,
            name: None,
            states: Vec::new(),
            before: None,
            limit: None,
            bodies: RowBodies::Included,
        }
    }

    /// The page size.
    pub(crate) fn page_size(&self) -> u32 {
        self.limit.unwrap_or(MAX_WORK_PAGE).min(MAX_WORK_PAGE)
    }
}

/// Stores jobs, runs and tasks. As everywhere in the store, a write that has returned survives kill -9.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Makes all of the changes, or none if a row is not as expected. The audit entry is written with them.
    async fn change_work(
        &self,
        changes: Vec<WorkChange>,
        audit: Option<AuditEntry>,
    ) -> Result<WorkUpdate, StoreError>;

    /// Returns a row.
    async fn work(&self, kind: WorkKind, id: &str) -> Result<Option<WorkRow>, StoreError>;

    /// Returns a page of rows, newest first; pass the id of the last one as `before` to get the next page.
    async fn work_rows(&self, filter: WorkFilter) -> Result<Vec<WorkRow>, StoreError>;

    /// Returns rows that are due, the longest overdue first.
    async fn due_work(&self, now_ms: i64, limit: u32) -> Result<Vec<WorkRow>, StoreError>;

    /// Returns the time at which the next row is due.
    async fn next_work_ms(&self) -> Result<Option<i64>, StoreError>;
}

/// Checks changes before they are made.
pub(crate) fn check_changes(changes: &[WorkChange]) -> Result<(), StoreError> {
    size("changes", changes.len(), 1, MAX_WORK_CHANGES)?;
    for change in changes {
        let (WorkChange::Add(row) | WorkChange::Replace { row, .. }) = change else { continue };
        text("id", &row.id)?;
        optional("parent", row.parent.as_deref())?;
        text("user", &row.user)?;
        text("name", &row.name)?;
        text("state", &row.state)?;
        size("body", row.body.len(), 2, MAX_WORK_BYTES)?;
    }
    Ok(())
}

/// Checks that a user may have one more row.
pub(crate) fn check_room(kind: WorkKind, of_user: usize) -> Result<(), StoreError> {
    let (most, what) = match kind {
        WorkKind::Job => (MAX_JOBS_OF_USER, "jobs"),
        WorkKind::Task => (MAX_TASKS_OF_USER, "tasks"),
        WorkKind::CallTask => (MAX_CALL_TASKS_OF_USER, "MCP tasks"),
        WorkKind::Run => return Ok(()),
    };
    if of_user >= most { Err(StoreError::Full { what }) } else { Ok(()) }
}
