//! Shared records, leases, and messages between gateways in the database.

use super::change::{ChangeEffect, ChangeResult, StoreChange};
use super::dialect::{DbConnection, DbRow, StoreBackend};
use crate::StoreError;
use crate::shared_records::{
    MAX_SHARED_PAGE, SharedKind, SharedRecord, SharedRecordStore, check_lease, check_names, check_shared,
};
use crate::sql::shared_records as sql;
use async_trait::async_trait;
use sqlx::Row;
use sqlx::error::BoxDynError;

/// A record as it was read; its kind was part of the query.
fn record(row: &DbRow) -> Result<SharedRecord, BoxDynError> {
    Ok(SharedRecord {
        kind: SharedKind::Session,
        name: row.try_get("name")?,
        user: row.try_get("user_name")?,
        body: row.try_get("body")?,
        changed_ms: row.try_get("changed_ms")?,
        expires_ms: row.try_get("expires_ms")?,
    })
}

pub(crate) async fn save(
    connection: &mut DbConnection,
    record: SharedRecord,
) -> Result<ChangeResult, sqlx::Error> {
    let query = sqlx::query(sql::SAVE_SHARED)
        .bind(record.kind.as_str())
        .bind(record.name)
        .bind(record.user)
        .bind(record.body)
        .bind(record.changed_ms)
        .bind(record.expires_ms);
    let rows = query.execute(connection).await?.rows_affected();
    Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }))
}

pub(crate) async fn extend(
    connection: &mut DbConnection,
    kind: SharedKind,
    names: Vec<String>,
    expires_ms: i64,
) -> Result<ChangeResult, sqlx::Error> {
    let mut rows = 0;
    for name in names {
        let query = sqlx::query(sql::EXTEND_SHARED).bind(kind.as_str()).bind(name).bind(expires_ms);
        rows += query.execute(&mut *connection).await?.rows_affected();
    }
    Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }))
}

#[async_trait]
impl SharedRecordStore for StoreBackend {
    async fn save_shared(&self, record: SharedRecord) -> Result<(), StoreError> {
        check_shared(&record)?;
        self.change(StoreChange::SaveShared(Box::new(record))).await?;
        Ok(())
    }

    async fn shared_record(&self, kind: SharedKind, name: &str) -> Result<Option<SharedRecord>, StoreError> {
        let query = sqlx::query(sql::SHARED_RECORD).bind(kind.as_str()).bind(name.to_owned());
        let found = self.all(query, record).await?.pop();
        Ok(found.map(|record| SharedRecord { kind, ..record }))
    }

    async fn changed_records(
        &self,
        kind: SharedKind,
        since_ms: i64,
    ) -> Result<Vec<SharedRecord>, StoreError> {
        let query =
            sqlx::query(sql::CHANGED_RECORDS).bind(kind.as_str()).bind(since_ms).bind(MAX_SHARED_PAGE as i64);
        let found = self.all(query, record).await?;
        Ok(found.into_iter().map(|record| SharedRecord { kind, ..record }).collect())
    }

    async fn extend_shared(
        &self,
        kind: SharedKind,
        mut names: Vec<String>,
        expires_ms: i64,
    ) -> Result<(), StoreError> {
        check_names(&names)?;
        // Rows are locked in the same order on every gateway.
        names.sort_unstable();
        self.change(StoreChange::ExtendShared { kind, names, expires_ms }).await?;
        Ok(())
    }

    async fn take_lease(
        &self,
        name: &str,
        holder: &str,
        now_ms: i64,
        until_ms: i64,
    ) -> Result<bool, StoreError> {
        check_lease(name, holder)?;
        let (name, holder) = (name.to_owned(), holder.to_owned());
        let taken = self.change(StoreChange::TakeLease { name, holder, now_ms, until_ms }).await?;
        Ok(taken.rows > 0)
    }

    async fn end_lease(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        check_lease(name, holder)?;
        let (name, holder) = (name.to_owned(), holder.to_owned());
        self.change(StoreChange::EndLease { name, holder }).await?;
        Ok(())
    }
}
