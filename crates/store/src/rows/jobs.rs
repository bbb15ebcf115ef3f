//! Jobs, runs and tasks in the database.

use super::change::{ChangeEffect, ChangeResult, StoreChange};
use super::dialect::{Db, DbConnection, DbRow, StoreBackend};
use super::read::unreadable;
use crate::StoreError;
use crate::jobs::{
    JobStore, RowBodies, WorkChange, WorkFilter, WorkKind, WorkRow, WorkUpdate, check_changes, check_room,
};
use crate::sql::jobs as sql;
use async_trait::async_trait;
use sqlx::error::BoxDynError;
use sqlx::{QueryBuilder, Row};
use toolbooth_core::audit::AuditEntry;

/// Reads a row of `work`.
fn read(row: &DbRow) -> Result<WorkRow, BoxDynError> {
    Ok(WorkRow {
        kind: WorkKind::of(row.try_get::<&str, _>("kind")?)?,
        id: row.try_get("id")?,
        parent: row.try_get("parent")?,
        user: row.try_get("user_name")?,
        name: row.try_get("name")?,
        state: row.try_get("state")?,
        due_ms: row.try_get("due_ms")?,
        created_ms: row.try_get("created_ms")?,
        updated_ms: row.try_get("updated_ms")?,
        body: row.try_get("body")?,
    })
}

fn list(filter: WorkFilter) -> QueryBuilder<Db> {
    let page_size = filter.page_size();
    let kind = filter.kind.as_str();
    let mut query = QueryBuilder::new(match filter.bodies {
        RowBodies::Included => sql::WORK_ROWS,
        RowBodies::LeftOut => sql::WORK_HEADS,
    });
    query.push_bind(kind);
    if let Some(user) = filter.user {
        query.push(" AND user_name = ").push_bind(user);
    }
    if let Some(parent) = filter.parent {
        query.push(" AND parent = ").push_bind(parent);
    }
    if let Some(name) = filter.name {
        query.push(" AND name = ").push_bind(name);
    }
    if !filter.states.is_empty() {
        let mut states = query.push(" AND state IN (").separated(", ");
        for state in filter.states {
            states.push_bind(state);
        }
        query.push(")");
    }
    if let Some(before) = filter.before {
        query.push(" AND seq < (SELECT seq FROM work WHERE kind = ").push_bind(kind);
        query.push(" AND id = ").push_bind(before).push(")");
    }
    query.push(" ORDER BY seq DESC LIMIT ").push_bind(i64::from(page_size));
    query
}

/// Makes all of the changes, or none.
pub(super) async fn change(
    connection: &mut DbConnection,
    changes: Vec<WorkChange>,
    audit: Option<AuditEntry>,
    notes: &mut Vec<AuditEntry>,
) -> Result<ChangeResult, sqlx::Error> {
    // All checks come first: a refused change must not leave a part of itself behind.
    for change in &changes {
        let (kind, id) = change.key();
        let query = sqlx::query(sql::WORK).bind(kind.as_str()).bind(id.to_owned());
        let present = match query.fetch_optional(&mut *connection).await?.as_ref().map(read).transpose() {
            Ok(present) => present,
            Err(error) => return Ok(Err(unreadable(&error))),
        };
        if !change.fits(present.as_ref()) {
            let work = WorkUpdate::Lost(present.map(Box::new));
            return Ok(Ok(ChangeEffect { work, ..ChangeEffect::default() }));
        }
        if let WorkChange::Add(row) = change {
            let query = sqlx::query(sql::WORK_OF_USER).bind(kind.as_str()).bind(row.user.clone());
            let count: i64 = query.fetch_one(&mut *connection).await?.try_get(0)?;
            if let Err(full) = check_room(kind, usize::try_from(count).unwrap_or(usize::MAX)) {
                return Ok(Err(full));
            }
        }
    }
    for change in changes {
        match change {
            WorkChange::Add(row) => write(connection, sql::ADD_WORK, row).await?,
            WorkChange::Replace { row, .. } => write(connection, sql::CHANGE_WORK, row).await?,
            WorkChange::Remove { kind, id, .. } => {
                if kind == WorkKind::Job {
                    sqlx::query(sql::REMOVE_RUNS).bind(id.clone()).execute(&mut *connection).await?;
                }
                sqlx::query(sql::REMOVE_WORK).bind(kind.as_str()).bind(id).execute(&mut *connection).await?;
            }
        }
    }
    notes.extend(audit);
    Ok(Ok(ChangeEffect::default()))
}

async fn write(
    connection: &mut DbConnection,
    statement: &'static str,
    row: WorkRow,
) -> Result<(), sqlx::Error> {
    let query = sqlx::query(statement)
        .bind(row.kind.as_str())
        .bind(row.id)
        .bind(row.parent)
        .bind(row.user)
        .bind(row.name)
        .bind(row.state)
        .bind(row.due_ms)
        .bind(row.created_ms)
        .bind(row.updated_ms)
        .bind(row.body);
    query.execute(connection).await?;
    Ok(())
}

#[async_trait]
impl JobStore for StoreBackend {
    async fn change_work(
        &self,
        changes: Vec<WorkChange>,
        audit: Option<AuditEntry>,
    ) -> Result<WorkUpdate, StoreError> {
        check_changes(&changes)?;
        let audit = audit.map(|entry| Box::new(entry.truncated()));
        Ok(self.change(StoreChange::Work { changes, audit }).await?.work)
    }

    async fn work(&self, kind: WorkKind, id: &str) -> Result<Option<WorkRow>, StoreError> {
        let query = sqlx::query(sql::WORK).bind(kind.as_str()).bind(id.to_owned());
        Ok(self.all(query, read).await?.pop())
    }

    async fn work_rows(&self, filter: WorkFilter) -> Result<Vec<WorkRow>, StoreError> {
        self.all(list(filter).build(), read).await
    }

    async fn due_work(&self, now_ms: i64, limit: u32) -> Result<Vec<WorkRow>, StoreError> {
        self.all(sqlx::query(sql::DUE_WORK).bind(now_ms).bind(i64::from(limit)), read).await
    }

    async fn next_work_ms(&self) -> Result<Option<i64>, StoreError> {
        let found = self.all(sqlx::query(sql::NEXT_WORK), |row| Ok(row.try_get("next_ms")?)).await?;
        Ok(found.into_iter().next().flatten())
    }
}
