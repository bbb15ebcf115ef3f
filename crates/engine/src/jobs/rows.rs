//! Jobs, runs and tasks as rows of the store.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::job::{JobRecord, JobState, RunRecord, TaskRecord};
use toolbooth_store::{WorkChange, WorkKind, WorkRow};

/// A record that is stored as a row.
pub(super) trait WorkRecord: Serialize + DeserializeOwned + Clone {
    /// The row of the record.
    fn row(&self) -> Result<WorkRow, Problem>;

    /// When it was changed.
    fn updated_ms(&self) -> i64;

    /// Notes a change at this time, which is later than all earlier ones.
    fn touch(&mut self, now_ms: i64);
}

/// Reads a row.
pub(super) fn record<T: WorkRecord>(row: &WorkRow) -> Result<T, Problem> {
    serde_json::from_str(&row.body).map_err(|error| {
        tracing::error!(kind = row.kind.as_str(), id = %row.id, "a row of work cannot be read: {error}");
        Problem {
            code: "job.unreadable",
            blame: Blame::Gateway,
            message: format!("the record of `{}` cannot be read", row.name),
            hint: Some("the gateway's log has the reason".into()),
        }
    })
}

/// The change that adds a record.
pub(super) fn added<T: WorkRecord>(record: &T) -> Result<WorkChange, Problem> {
    Ok(WorkChange::Add(record.row()?))
}

/// The change that replaces a record by a later version of it.
pub(super) fn replaced<T: WorkRecord>(earlier: &T, record: &T) -> Result<WorkChange, Problem> {
    Ok(WorkChange::Replace { expected_ms: earlier.updated_ms(), row: record.row()? })
}

fn body<T: Serialize>(record: &T) -> Result<String, Problem> {
    serde_json::to_string(record).map_err(|error| Problem {
        code: "job.unreadable",
        blame: Blame::Gateway,
        message: format!("a record cannot be written: {error}"),
        hint: None,
    })
}

fn later(updated_ms: i64, now_ms: i64) -> i64 {
    now_ms.max(updated_ms.saturating_add(1))
}

impl WorkRecord for JobRecord {
    fn row(&self) -> Result<WorkRow, Problem> {
        let is_active = !self.paused && matches!(self.state, JobState::Scheduled | JobState::Running);
        Ok(WorkRow {
            kind: WorkKind::Job,
            id: self.key.clone(),
            parent: None,
            user: self.owner.user.clone(),
            name: self.name.clone(),
            state: self.state.as_str().to_owned(),
            due_ms: self.next_run_ms.filter(|_| is_active),
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
            body: body(self)?,
        })
    }

    fn updated_ms(&self) -> i64 {
        self.updated_ms
    }

    fn touch(&mut self, now_ms: i64) {
        self.updated_ms = later(self.updated_ms, now_ms);
    }
}

impl WorkRecord for RunRecord {
    fn row(&self) -> Result<WorkRow, Problem> {
        Ok(WorkRow {
            kind: WorkKind::Run,
            id: self.id.to_string(),
            parent: Some(self.job.clone()),
            user: self.owner.user.clone(),
            name: self.name.clone(),
            state: self.state.as_str().to_owned(),
            due_ms: self.lease_until_ms.filter(|_| !self.state.is_final()),
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
            body: body(self)?,
        })
    }

    fn updated_ms(&self) -> i64 {
        self.updated_ms
    }

    fn touch(&mut self, now_ms: i64) {
        self.updated_ms = later(self.updated_ms, now_ms);
    }
}

impl WorkRecord for TaskRecord {
    fn row(&self) -> Result<WorkRow, Problem> {
        Ok(WorkRow {
            kind: WorkKind::Task,
            id: self.manifest.clone().unwrap_or_else(|| self.id.to_string()),
            parent: self.run.map(|run| run.to_string()),
            user: self.owner.user.clone(),
            name: self.definition.name.clone(),
            state: self.state.as_str().to_owned(),
            due_ms: self.overdue_ms(),
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
            body: body(self)?,
        })
    }

    fn updated_ms(&self) -> i64 {
        self.updated_ms
    }

    fn touch(&mut self, now_ms: i64) {
        self.updated_ms = later(self.updated_ms, now_ms);
    }
}
