//! The store in one file: a single writer that commits in groups, and readers opened when needed.

mod file;
mod lock;
mod reader;
mod rows;
mod writer;

use crate::limits::{self, MAX_OPEN_INTENTS, MAX_RECENT_CALLS, Retention};
use crate::records::{CallRow, DiscoveryRecord, Intent, NonceUse, Outcome};
use crate::{Store, StoreError, sql};
use async_trait::async_trait;
use file::DatabaseFile;
use reader::Readers;
use std::fmt;
use std::path::Path;
use toolbooth_core::names::ServerName;
use writer::{Change, PURGE_CHUNK, Writer};

/// A `Store` in a SQLite database that one gateway has to itself.
pub struct SqliteStore {
    file: DatabaseFile,
    retention: Retention,
    readers: Readers,
    writer: Writer,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.file.path()).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the database at `path`; makes it, and its folder, if they are not there.
    pub async fn open(path: &Path, retention: Retention) -> Result<Self, StoreError> {
        let (file, lock) = DatabaseFile::claim(path)?;
        let connection = file.connect_writer().await?;
        let writer = Writer::start(file.clone(), connection, lock);
        Ok(Self { readers: Readers::new(file.clone()), file, retention, writer })
    }

    async fn rows(&self, statement: &'static str, limit: u32) -> Result<Vec<CallRow>, StoreError> {
        let mut reader = self.readers.take().await?;
        let query = sqlx::query(statement).bind(i64::from(limit));
        let found = query.fetch_all(reader.connection()).await.map_err(|error| self.file.fault(&error))?;
        reader.give_back();
        Ok(rows::readable(&found, rows::call))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn save_discovery(&self, record: DiscoveryRecord) -> Result<(), StoreError> {
        limits::check_discovery(&record)?;
        self.writer.write(Change::SaveDiscovery(record)).await?;
        Ok(())
    }

    async fn discoveries(&self) -> Result<Vec<DiscoveryRecord>, StoreError> {
        let mut reader = self.readers.take().await?;
        let query = sqlx::query(sql::DISCOVERIES);
        let found = query.fetch_all(reader.connection()).await.map_err(|error| self.file.fault(&error))?;
        reader.give_back();
        Ok(rows::readable(&found, rows::discovery))
    }

    async fn forget_discovery(&self, server: &ServerName) -> Result<(), StoreError> {
        self.writer.write(Change::ForgetDiscovery(server.clone())).await?;
        Ok(())
    }

    async fn write_intent(&self, intent: Intent) -> Result<(), StoreError> {
        limits::check_intent(&intent)?;
        self.writer.write(Change::Intent(intent)).await?;
        Ok(())
    }

    async fn write_outcome(&self, outcome: Outcome) -> Result<(), StoreError> {
        limits::check_outcome(&outcome)?;
        self.writer.write(Change::Outcome(outcome)).await?;
        Ok(())
    }

    async fn open_intents(&self) -> Result<Vec<Intent>, StoreError> {
        let open = self.rows(sql::OPEN_CALLS, MAX_OPEN_INTENTS).await?;
        Ok(open.into_iter().map(|row| row.intent).collect())
    }

    async fn close_interrupted(&self, at_ms: i64) -> Result<u64, StoreError> {
        Ok(self.writer.write(Change::CloseInterrupted { at_ms }).await?.rows)
    }

    async fn recent_calls(&self, limit: u32) -> Result<Vec<CallRow>, StoreError> {
        self.rows(sql::RECENT_CALLS, limit.min(MAX_RECENT_CALLS)).await
    }

    async fn get_or_create_secret(
        &self,
        name: &str,
        create: &(dyn Fn() -> Vec<u8> + Send + Sync),
    ) -> Result<Vec<u8>, StoreError> {
        limits::check_secret_name(name)?;
        let mut reader = self.readers.take().await?;
        let query = sqlx::query_scalar::<_, Vec<u8>>(sql::SECRET).bind(name.to_owned());
        let found =
            query.fetch_optional(reader.connection()).await.map_err(|error| self.file.fault(&error))?;
        reader.give_back();
        if let Some(secret) = found {
            return Ok(secret);
        }
        let candidate = create();
        limits::check_secret(&candidate)?;
        // The writer keeps the first candidate and answers with that one, whoever made it.
        Ok(self.writer.write(Change::Secret { name: name.to_owned(), candidate }).await?.secret)
    }

    async fn use_nonce(&self, nonce: &[u8], expires_at_ms: i64) -> Result<NonceUse, StoreError> {
        limits::check_nonce(nonce)?;
        let effect = self.writer.write(Change::Nonce { nonce: nonce.to_vec(), expires_at_ms }).await?;
        Ok(if effect.rows == 1 { NonceUse::First } else { NonceUse::Again })
    }

    async fn purge(&self, now_ms: i64) -> Result<(), StoreError> {
        let kinds = [
            (sql::PURGE_NONCES, now_ms),
            (sql::PURGE_OLD_CALLS, self.retention.horizon_ms(now_ms)),
            (sql::PURGE_SURPLUS_CALLS, i64::from(self.retention.max_rows)),
        ];
        for (statement, bound) in kinds {
            // Bite by bite, so that other writes get their turn in between.
            while self.writer.write(Change::Purge { statement, bound }).await?.rows >= PURGE_CHUNK {}
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.writer.write(Change::Nothing).await?;
        Ok(())
    }

    async fn close(&self) {
        // The writer goes last: the last connection to close tidies the write-ahead log away.
        self.readers.close().await;
        self.writer.close().await;
    }
}
