//! The store in a PostgreSQL database that several gateways share: a writer that commits in groups, a pool of read
//! connections, and a listener for the changes of other gateways.

mod database;
mod dialect;
mod late;
mod listener;
mod partitions;
#[allow(clippy::duplicate_mod, reason = "one source for both databases: the types differ")]
#[path = "../rows/mod.rs"]
mod rows;
mod topics;
mod writer;

use crate::limits::{AuditRetention, Retention, check_secret};
use crate::notices::{StoreNotice, StoreNotices};
use crate::records::Intent;
use crate::sql::SECRETS;
use crate::{DatabaseFailure, StoreError};
use database::{Database, MAX_READERS, is_transient};
use listener::{BACKLOG, ChangeListener};
use rows::change::{ChangeResult, StoreChange};
use rows::read;
use rows::transfer::Snapshot;
use sqlx::error::BoxDynError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnection, PgPool, PgRow};
use sqlx::{Execute, Executor, Postgres, query::Query};
use std::fmt;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::secret::SecretText;
use uuid::Uuid;
use writer::GroupWriter;

/// The longest wait for an answer of the database when readiness is asked.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
const SECRET: &str = "SELECT value FROM secrets WHERE name = $1";

/// A `Store` in a PostgreSQL database that several gateways share.
pub struct PostgresStore {
    database: Database,
    retention: Retention,
    readers: PgPool,
    writer: GroupWriter,
    replica: String,
    followers: broadcast::Sender<StoreNotice>,
    listener: AbortHandle,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("replica", &self.replica).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the database at `url`, and migrates it to the newest schema.
    pub async fn open(url: &SecretText, retention: Retention) -> Result<Self, StoreError> {
        let database = Database::at(url.expose())?;
        let mut connection = database.connect_writer().await.map_err(|error| database.fault(&error))?;
        database.migrate(&mut connection).await?;
        // New at each start: the unfinished work of an earlier process is not this one's.
        let replica = Uuid::now_v7().to_string();
        let readers = database.readers();
        let (followers, _) = broadcast::channel(BACKLOG);
        let listener = ChangeListener {
            database: database.clone(),
            readers: readers.clone(),
            replica: replica.clone(),
            followers: followers.clone(),
        };
        let listener = tokio::spawn(listener.run()).abort_handle();
        let writer = GroupWriter::start(database.clone(), connection, replica.clone());
        Ok(Self { database, retention, readers, writer, replica, followers, listener })
    }

    /// Commits a change.
    async fn change(&self, change: StoreChange) -> ChangeResult {
        self.writer.write(change).await
    }

    /// Takes a connection for reading.
    async fn reader(&self) -> Result<PooledReader, StoreError> {
        Ok(PooledReader(self.readers.acquire().await.map_err(|error| self.fault(&error))?))
    }

    /// Maps a database error, and logs its text.
    fn fault(&self, error: &sqlx::Error) -> StoreError {
        self.database.fault(error)
    }

    /// Reads all rows of a query. If its connection is lost, another one is used; after a restart of the database, all idle
    /// ones may be.
    async fn all<T>(
        &self,
        mut query: Query<'_, Postgres, PgArguments>,
        read: fn(&PgRow) -> Result<T, BoxDynError>,
    ) -> Result<Vec<T>, StoreError> {
        let arguments = query.take_arguments().map_err(|error| self.fault(&sqlx::Error::Encode(error)))?;
        let (arguments, statement) = (arguments.unwrap_or_default(), query.sql());
        let mut lost = 0;
        let found = loop {
            let mut reader = self.reader().await?;
            let query = sqlx::query_with(statement.clone(), arguments.clone());
            match query.fetch_all(reader.connection()).await {
                Ok(found) => break found,
                Err(error) if lost < MAX_READERS && is_transient(&error) => lost += 1,
                Err(error) => return Err(self.fault(&error)),
            }
        };
        Ok(read::readable(&found, read))
    }

    /// Commits an audit entry: a file on this machine would be lost with it.
    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.change(StoreChange::Note(Box::new(entry))).await?;
        Ok(())
    }

    /// Commits the beginning of a call.
    async fn begin_call(&self, intent: Intent) -> Result<(), StoreError> {
        self.change(StoreChange::Intent(intent)).await?;
        Ok(())
    }

    /// Commits the end of a call.
    async fn end_call(&self, call: Uuid, audit: Option<AuditEntry>) -> Result<(), StoreError> {
        self.change(StoreChange::ForgetIntent { call, audit: audit.map(Box::new) }).await?;
        Ok(())
    }

    /// Returns a key of the database, or creates it.
    async fn secret(
        &self,
        name: &str,
        create: &(dyn Fn() -> Vec<u8> + Send + Sync),
    ) -> Result<Vec<u8>, StoreError> {
        if let Some(present) = self.find_secret(name).await? {
            return Ok(present);
        }
        let value = create();
        check_secret(&value)?;
        self.change(StoreChange::Secret { name: name.to_owned(), value }).await?;
        // Another gateway may have created it first.
        let stored = self.find_secret(name).await?;
        stored.ok_or(StoreError::Failed { failure: DatabaseFailure::Other })
    }

    async fn find_secret(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let query = sqlx::query(SECRET).bind(name.to_owned());
        Ok(self.all(query, |row| Ok(sqlx::Row::try_get(row, 0)?)).await?.pop())
    }

    /// One state of the database at `url`, which gateways may be using.
    pub(crate) async fn snapshot(url: &SecretText) -> Result<Snapshot, StoreError> {
        let database = Database::at(url.expose())?;
        let mut connection = database.connect().await.map_err(|error| database.fault(&error))?;
        let found = sqlx::query(SECRETS).fetch_all(&mut connection).await;
        let found = found.map_err(|error| database.fault(&error))?;
        let keys =
            read::readable(&found, |row| Ok((sqlx::Row::try_get(row, 0)?, sqlx::Row::try_get(row, 1)?)));
        Snapshot::begin(database, connection, keys).await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        if self.writer.is_closed() {
            return Err(StoreError::Closed);
        }
        let answer = timeout(PROBE_TIMEOUT, self.readers.execute("SELECT 1")).await;
        answer.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map_err(|error| self.fault(&error))?;
        Ok(())
    }

    /// Removes many old rows of the audit at once.
    async fn drop_old_audit(&self, retention: AuditRetention, now_ms: i64) -> Result<(), StoreError> {
        let dropped = partitions::drop_old(&self.database, &self.readers, retention, now_ms).await;
        dropped.map_err(|error| self.fault(&error))
    }

    fn replica_id(&self) -> &str {
        &self.replica
    }

    fn follow(&self) -> Option<StoreNotices> {
        Some(StoreNotices::new(self.followers.subscribe()))
    }

    async fn shut(&self) {
        self.listener.abort();
        self.writer.close().await;
        self.readers.close().await;
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// A read connection of the pool.
struct PooledReader(PoolConnection<Postgres>);

impl PooledReader {
    fn connection(&mut self) -> &mut PgConnection {
        &mut self.0
    }

    /// Returns the connection to the pool, which happens whenever it is dropped.
    fn give_back(self) {}
}
