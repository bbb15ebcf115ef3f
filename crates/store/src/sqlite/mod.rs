//! The store in one file: a single writer that commits in groups, and readers opened when needed.

mod file;
mod lock;
mod reader;
mod rows;
mod tokens;
mod writer;

use crate::limits::{self, MAX_OPEN_INTENTS, MAX_RECENT_CALLS, Retention};
use crate::records::{CallRow, DiscoveryRecord, Intent, NonceUse, Outcome};
use crate::{Store, StoreError, sql};
use async_trait::async_trait;
use file::DatabaseFile;
use reader::Readers;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Sqlite, query::Query};
use std::fmt;
use std::path::Path;
use toolbooth_core::names::ServerName;
use toolbooth_core::token::TokenRecord;
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

    /// Reads all rows that a query finds.
    async fn all<T>(
        &self,
        query: Query<'_, Sqlite, SqliteArguments>,
        read: fn(&SqliteRow) -> Result<T, BoxDynError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut reader = self.readers.take().await?;
        let found = query.fetch_all(reader.connection()).await.map_err(|error| self.file.fault(&error))?;
        reader.give_back();
        Ok(rows::readable(&found, read))
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
        self.all(sqlx::query(sql::DISCOVERIES), rows::discovery).await
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
        let query = sqlx::query(sql::OPEN_CALLS).bind(i64::from(MAX_OPEN_INTENTS));
        let open = self.all(query, rows::call).await?;
        Ok(open.into_iter().map(|row| row.intent).collect())
    }

    async fn close_interrupted(&self, at_ms: i64) -> Result<u64, StoreError> {
        Ok(self.writer.write(Change::CloseInterrupted { at_ms }).await?.rows)
    }

    async fn recent_calls(&self, limit: u32) -> Result<Vec<CallRow>, StoreError> {
        let query = sqlx::query(sql::RECENT_CALLS).bind(i64::from(limit.min(MAX_RECENT_CALLS)));
        self.all(query, rows::call).await
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

    async fn add_token(&self, token: TokenRecord) -> Result<(), StoreError> {
        limits::check_token(&token)?;
        self.writer.write(Change::AddToken(token)).await?;
        Ok(())
    }

    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRecord>, StoreError> {
        let query = sqlx::query(sql::tokens::TOKEN_BY_HASH).bind(hash.to_vec());
        Ok(self.all(query, tokens::token).await?.pop())
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.all(sqlx::query(sql::tokens::TOKENS), tokens::token).await
    }

    async fn revoke_token(&self, id: &str, at_ms: i64) -> Result<Option<TokenRecord>, StoreError> {
        Ok(self.writer.write(Change::RevokeToken { id: id.to_owned(), at_ms }).await?.token)
    }

    async fn purge(&self, now_ms: i64) -> Result<(), StoreError> {
        let horizon_ms = self.retention.horizon_ms(now_ms);
        let kinds = [
            (sql::PURGE_NONCES, now_ms),
            (sql::PURGE_OLD_CALLS, horizon_ms),
            (sql::tokens::PURGE_TOKENS, horizon_ms),
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
