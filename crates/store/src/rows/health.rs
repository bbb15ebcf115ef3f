//! Health windows in the database.

use super::change::{ChangeEffect, ChangeResult, StoreChange};
use super::dialect::{DbConnection, DbRow, StoreBackend};
use crate::StoreError;
use crate::health::{HealthRow, HealthStore, MAX_HEALTH, check_health};
use crate::sql::health as sql;
use async_trait::async_trait;
use sqlx::Row;
use sqlx::error::BoxDynError;

fn read(row: &DbRow) -> Result<HealthRow, BoxDynError> {
    Ok(HealthRow {
        subject: row.try_get("subject")?,
        server: row.try_get("server")?,
        name: row.try_get("name")?,
        saved_ms: row.try_get("saved_ms")?,
        window: row.try_get("calls")?,
    })
}

pub(crate) async fn save(
    connection: &mut DbConnection,
    rows: Vec<HealthRow>,
) -> Result<ChangeResult, sqlx::Error> {
    for row in rows {
        let query = sqlx::query(sql::SAVE_HEALTH)
            .bind(row.subject)
            .bind(row.server)
            .bind(row.name)
            .bind(row.saved_ms)
            .bind(row.window);
        query.execute(&mut *connection).await?;
    }
    Ok(Ok(ChangeEffect::default()))
}

#[async_trait]
impl HealthStore for StoreBackend {
    async fn save_health(&self, rows: Vec<HealthRow>) -> Result<(), StoreError> {
        check_health(&rows)?;
        self.change(StoreChange::SaveHealth(rows)).await?;
        Ok(())
    }

    async fn health(&self) -> Result<Vec<HealthRow>, StoreError> {
        self.all(sqlx::query(sql::HEALTH).bind(MAX_HEALTH as i64), read).await
    }
}
