//! The store in a SQLite file: a single writer that commits in groups, and read connections opened on demand.

mod dialect;
mod file;
mod keys;
mod lock;
mod reader;
#[allow(clippy::duplicate_mod, reason = "one source for both databases: the types differ")]
#[path = "../rows/mod.rs"]
mod rows;
mod spool;
mod writer;

use crate::StoreError;
use crate::limits::{AuditRetention, Retention};
use crate::notices::StoreNotices;
use crate::records::Intent;
use file::DatabaseFile;
use keys::{KeyFile, marker_of};
use reader::{ReadConnection, ReadPool};
use rows::change::{ChangeResult, StoreChange};
use rows::read;
use rows::transfer::Snapshot;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Sqlite, query::Query};
use std::fmt;
use std::path::Path;
use tokio::sync::Mutex;
use toolbooth_core::audit::AuditEntry;
use uuid::Uuid;
use writer::{Writer, WriterConnection};

/// A `Store` in a SQLite database that only one gateway uses.
pub struct SqliteStore {
    file: DatabaseFile,
    retention: Retention,
    readers: ReadPool,
    writer: Writer,
    // Locked while a key is created, so that two tasks do not create the same key.
    keys: Mutex<KeyFile>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.file.path()).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the database at `path`; creates it and its folder if they do not exist.
    pub async fn open(path: &Path, retention: Retention) -> Result<Self, StoreError> {
        let (file, lock) = DatabaseFile::claim(path)?;
        let mut ready = WriterConnection::connect(&file).await?;
        let keys = ready.keys(&file).await?;
        let spool = ready.recover(&file).await?;
        let writer = Writer::start(file.clone(), ready, spool, lock);
        Ok(Self { readers: ReadPool::new(file.clone()), file, retention, writer, keys: Mutex::new(keys) })
    }

    /// Commits a change.
    async fn change(&self, change: StoreChange) -> ChangeResult {
        self.writer.write(change).await
    }

    /// Takes a connection for reading.
    async fn reader(&self) -> Result<ReadConnection<'_>, StoreError> {
        self.readers.take().await
    }

    /// Maps a database error, and logs its text.
    fn fault(&self, error: &sqlx::Error) -> StoreError {
        self.file.fault(error)
    }

    /// Reads all rows of a query.
    async fn all<T>(
        &self,
        query: Query<'_, Sqlite, SqliteArguments>,
        read: fn(&SqliteRow) -> Result<T, BoxDynError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut reader = self.readers.take().await?;
        let found = query.fetch_all(reader.connection()).await.map_err(|error| self.file.fault(&error))?;
        reader.give_back();
        Ok(read::readable(&found, read))
    }

    /// Writes an audit entry to the spool.
    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.writer.note(entry).await
    }

    /// Writes the beginning of a call to the spool.
    async fn begin_call(&self, intent: Intent) -> Result<(), StoreError> {
        self.writer.begin(intent)
    }

    /// Writes the end of a call to the spool.
    async fn end_call(&self, call: Uuid, audit: Option<AuditEntry>) -> Result<(), StoreError> {
        match audit {
            Some(entry) => self.writer.note(entry).await,
            None => self.writer.end(call),
        }
    }

    /// Returns a key of the key file, or creates it.
    async fn secret(
        &self,
        name: &str,
        create: &(dyn Fn() -> Vec<u8> + Send + Sync),
    ) -> Result<Vec<u8>, StoreError> {
        let mut keys = self.keys.lock().await;
        if self.writer.is_closed() {
            return Err(StoreError::Closed);
        }
        let key = match keys.get(name) {
            Some(key) if keys.is_marked(name) => return Ok(key.clone()),
            // A crash or a failed commit happened between writing the key and its fingerprint.
            Some(key) => key.clone(),
            None => {
                let key = create();
                keys.add(name, key.clone())?;
                key
            }
        };
        // The fingerprint is written last: an unused key is harmless, a fingerprint without its key is not.
        self.writer.write(StoreChange::Secret { name: name.to_owned(), value: marker_of(&key) }).await?;
        keys.set_marked(name);
        Ok(key)
    }

    /// One state of the database at `path`, which a gateway may be using.
    pub(crate) async fn snapshot(path: &Path) -> Result<Snapshot, StoreError> {
        let file = DatabaseFile::existing(path)?;
        let connection = file.connect_reader().await?;
        let keys = KeyFile::load(file.path())?;
        Snapshot::begin(file, connection, keys).await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        match self.writer.is_closed() {
            true => Err(StoreError::Closed),
            false => Ok(()),
        }
    }

    /// Nothing is removed at once: SQLite has no partitions.
    async fn drop_old_audit(&self, retention: AuditRetention, now_ms: i64) -> Result<(), StoreError> {
        let _ = (retention, now_ms);
        Ok(())
    }

    fn replica_id(&self) -> &str {
        "single"
    }

    fn follow(&self) -> Option<StoreNotices> {
        None
    }

    async fn shut(&self) {
        // The writer closes last: the last connection to close removes the write-ahead log.
        self.readers.close().await;
        self.writer.close().await;
    }
}
