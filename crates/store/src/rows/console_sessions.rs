//! Sessions of the console in the database.

use super::change::{ChangeEffect, ChangeResult, StoreChange};
use super::dialect::{DbConnection, DbRow, StoreBackend};
use crate::StoreError;
use crate::console_sessions::{
    ConsoleSessionRecord, ConsoleSessionStore, MAX_CONSOLE_SESSIONS, MAX_CONSOLE_SESSIONS_OF_USER,
    check_console_credential, check_console_session,
};
use crate::sql::console_sessions as sql;
use async_trait::async_trait;
use sqlx::Row;
use sqlx::error::BoxDynError;

fn session(row: &DbRow) -> Result<ConsoleSessionRecord, BoxDynError> {
    Ok(ConsoleSessionRecord {
        digest: row.try_get::<&[u8], _>("digest")?.try_into()?,
        user: row.try_get("user_name")?,
        credential: row.try_get("credential")?,
        until_ms: row.try_get("until_ms")?,
        ends_ms: row.try_get("ends_ms")?,
    })
}

pub(crate) async fn add(
    connection: &mut DbConnection,
    session: ConsoleSessionRecord,
) -> Result<ChangeResult, sqlx::Error> {
    let of_user = sqlx::query(sql::TRIM_SESSIONS_OF_USER)
        .bind(session.user.clone())
        .bind(MAX_CONSOLE_SESSIONS_OF_USER as i64 - 1);
    of_user.execute(&mut *connection).await?;
    sqlx::query(sql::TRIM_SESSIONS).bind(MAX_CONSOLE_SESSIONS as i64 - 1).execute(&mut *connection).await?;
    let query = sqlx::query(sql::ADD_SESSION)
        .bind(session.digest.to_vec())
        .bind(session.user)
        .bind(session.credential)
        .bind(session.until_ms)
        .bind(session.ends_ms);
    let rows = query.execute(connection).await?.rows_affected();
    Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }))
}

#[async_trait]
impl ConsoleSessionStore for StoreBackend {
    async fn add_console_session(&self, session: ConsoleSessionRecord) -> Result<(), StoreError> {
        check_console_session(&session)?;
        self.change(StoreChange::AddConsoleSession(Box::new(session))).await?;
        Ok(())
    }

    async fn console_session(&self, digest: &[u8; 32]) -> Result<Option<ConsoleSessionRecord>, StoreError> {
        let query = sqlx::query(sql::SESSION).bind(digest.to_vec());
        Ok(self.all(query, session).await?.pop())
    }

    async fn extend_console_session(&self, digest: &[u8; 32], until_ms: i64) -> Result<(), StoreError> {
        self.change(StoreChange::ExtendConsoleSession { digest: *digest, until_ms }).await?;
        Ok(())
    }

    async fn replace_console_credential(
        &self,
        digest: &[u8; 32],
        credential: Vec<u8>,
    ) -> Result<(), StoreError> {
        check_console_credential(&credential)?;
        self.change(StoreChange::ReplaceConsoleCredential { digest: *digest, credential }).await?;
        Ok(())
    }

    async fn end_console_session(&self, digest: &[u8; 32]) -> Result<(), StoreError> {
        self.change(StoreChange::EndConsoleSession(*digest)).await?;
        Ok(())
    }
}
