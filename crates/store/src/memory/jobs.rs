//! Jobs, runs and tasks in memory.

use super::MemoryStore;
use crate::StoreError;
use crate::jobs::{
    CALL_TASK_MS, ENDED_WORK_MS, JobStore, MAX_ENDED_WORK, RowBodies, WorkChange, WorkFilter, WorkKind,
    WorkRow, WorkUpdate, check_changes, check_room,
};
use async_trait::async_trait;
use toolbooth_core::audit::AuditEntry;

/// Rows in the order they were added.
#[derive(Debug, Default)]
pub(super) struct WorkTable(Vec<WorkRow>);

impl WorkTable {
    fn place(&self, kind: WorkKind, id: &str) -> Option<usize> {
        self.0.iter().position(|row| row.kind == kind && row.id == id)
    }

    fn change(&mut self, changes: Vec<WorkChange>) -> Result<WorkUpdate, StoreError> {
        for change in &changes {
            let (kind, id) = change.key();
            let present = self.place(kind, id).map(|place| &self.0[place]);
            if !change.fits(present) {
                return Ok(WorkUpdate::Lost(present.cloned().map(Box::new)));
            }
            if let WorkChange::Add(row) = change {
                check_room(
                    kind,
                    self.0.iter().filter(|kept| kept.kind == kind && kept.user == row.user).count(),
                )?;
            }
        }
        for change in changes {
            let (kind, id) = change.key();
            let place = self.place(kind, id);
            match (change, place) {
                (WorkChange::Add(row), _) => self.0.push(row),
                (WorkChange::Replace { row, .. }, Some(place)) => self.0[place] = row,
                (WorkChange::Remove { .. }, Some(place)) => {
                    let removed = self.0.remove(place);
                    if removed.kind == WorkKind::Job {
                        self.0.retain(|row| {
                            row.kind != WorkKind::Run || row.parent.as_ref() != Some(&removed.id)
                        });
                    }
                }
                (_, None) => {}
            }
        }
        Ok(WorkUpdate::Won)
    }

    fn list(&self, filter: &WorkFilter) -> Vec<WorkRow> {
        let end = match &filter.before {
            Some(before) => self.place(filter.kind, before).unwrap_or(0),
            None => self.0.len(),
        };
        let fits = |row: &&WorkRow| {
            row.kind == filter.kind
                && filter.user.as_ref().is_none_or(|user| row.user == *user)
                && filter.parent.as_ref().is_none_or(|parent| row.parent.as_ref() == Some(parent))
                && filter.name.as_ref().is_none_or(|name| row.name == *name)
                && (filter.states.is_empty() || filter.states.contains(&row.state))
        };
        let found = self.0[..end].iter().rev().filter(fits).take(filter.page_size() as usize);
        let mut rows: Vec<WorkRow> = found.cloned().collect();
        if filter.bodies == RowBodies::LeftOut {
            rows.iter_mut().for_each(|row| row.body.clear());
        }
        rows
    }

    fn due(&self, now_ms: i64, limit: u32) -> Vec<WorkRow> {
        let mut due: Vec<(i64, &WorkRow)> =
            self.0.iter().filter_map(|row| Some((row.due_ms?, row))).collect();
        due.retain(|(at_ms, _)| *at_ms <= now_ms);
        due.sort_by_key(|(at_ms, _)| *at_ms);
        due.into_iter().take(limit as usize).map(|(_, row)| row.clone()).collect()
    }

    pub(super) fn purge(&mut self, now_ms: i64) {
        let oldest_ms = now_ms.saturating_sub(CALL_TASK_MS);
        self.0.retain(|row| row.kind != WorkKind::CallTask || row.created_ms >= oldest_ms);
        let is_counted = |row: &WorkRow| row.kind != WorkKind::CallTask;
        let counted = self.0.iter().filter(|row| is_counted(row)).count();
        let surplus = counted.saturating_sub(MAX_ENDED_WORK as usize);
        let mut place = 0;
        self.0.retain(|row| {
            place += usize::from(is_counted(row));
            let is_over = row.due_ms.is_none() && row.kind.ends_with(&row.state);
            !is_over || (row.updated_ms >= now_ms.saturating_sub(ENDED_WORK_MS) && place > surplus)
        });
    }
}

#[async_trait]
impl JobStore for MemoryStore {
    async fn change_work(
        &self,
        changes: Vec<WorkChange>,
        audit: Option<AuditEntry>,
    ) -> Result<WorkUpdate, StoreError> {
        check_changes(&changes)?;
        self.with(|state| {
            let update = state.work.change(changes)?;
            if let (WorkUpdate::Won, Some(entry)) = (&update, audit) {
                state.audit.add(entry);
            }
            Ok(update)
        })
    }

    async fn work(&self, kind: WorkKind, id: &str) -> Result<Option<WorkRow>, StoreError> {
        self.with(|state| Ok(state.work.place(kind, id).map(|place| state.work.0[place].clone())))
    }

    async fn work_rows(&self, filter: WorkFilter) -> Result<Vec<WorkRow>, StoreError> {
        self.with(|state| Ok(state.work.list(&filter)))
    }

    async fn due_work(&self, now_ms: i64, limit: u32) -> Result<Vec<WorkRow>, StoreError> {
        self.with(|state| Ok(state.work.due(now_ms, limit)))
    }

    async fn next_work_ms(&self) -> Result<Option<i64>, StoreError> {
        self.with(|state| Ok(state.work.0.iter().filter_map(|row| row.due_ms).min()))
    }
}
