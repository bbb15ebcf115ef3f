//! The database: its address, its connections, its schema, and the mapping of its errors.

use crate::{DatabaseFailure, StoreError};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Executor, Row, SqlSafeStr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;
use tracing::warn;

/// The most read connections of one gateway.
const MAX_READERS: u32 = 8;
/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that was idle for longer is tested before it is used.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);
/// The channel of notices.
const CHANNEL: &str = "toolbooth";
/// All migrations; a new one is a line here and a new file. A released file is never edited.
const MIGRATIONS: [(i64, &str, &str); 2] = [
    (1, "first", include_str!("../../migrations/postgres/0001_first.sql")),
    (2, "work", include_str!("../../migrations/postgres/0002_work.sql")),
];
/// Settings of the connection that writes. A gateway that stops in the middle of a transaction must not stop all others.
const SESSION: &str = "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'; \
    SET statement_timeout = '60s'";

/// A PostgreSQL database.
#[derive(Debug, Clone)]
pub(super) struct Database {
    options: PgConnectOptions,
}

impl Database {
    /// The database with this URL.
    pub(super) fn at(url: &str) -> Result<Self, StoreError> {
        // The URL may hold a password, so the error's text is not logged.
        let options = url.parse::<PgConnectOptions>().map_err(|_| StoreError::Unreachable {
            address: "postgres://…".into(),
            reason: "the URL is not valid",
        })?;
        Ok(Self { options: options.application_name("toolbooth").disable_statement_logging() })
    }

    /// The address without user and password.
    fn address(&self) -> String {
        let database = self.options.get_database().unwrap_or_else(|| self.options.get_username());
        match self.options.get_socket() {
            Some(socket) => format!("postgres://{}/{database}", socket.display()),
            None => format!("postgres://{}:{}/{database}", self.options.get_host(), self.options.get_port()),
        }
    }

    /// The pool of read connections; they are opened on first use.
    pub(super) fn readers(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(MAX_READERS)
            .acquire_timeout(CONNECT_TIMEOUT)
            .idle_timeout(Duration::from_secs(600))
            .test_before_acquire(false)
            .before_acquire(|connection, about| {
                Box::pin(async move {
                    if about.idle_for > TRUSTED_IDLE {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(self.options.clone())
    }

    /// Opens a connection.
    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        timeout(CONNECT_TIMEOUT, self.options.connect()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    /// Opens a connection for writing.
    pub(super) async fn connect_writer(&self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = self.connect().await?;
        connection.execute(SESSION).await?;
        Ok(connection)
    }

    /// Opens a connection that receives notices.
    pub(super) async fn listen(&self) -> Result<PgListener, sqlx::Error> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_TIMEOUT)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }

    /// Checks that the database is Toolbooth's or empty, and migrates it to the newest schema.
    pub(super) async fn migrate(&self, connection: &mut PgConnection) -> Result<(), StoreError> {
        let tables = "SELECT to_regclass('audit_ends') IS NOT NULL AS ours, (SELECT count(*) FROM pg_tables \
            WHERE schemaname = current_schema() AND tablename <> '_sqlx_migrations') AS others";
        let found =
            sqlx::query(tables).fetch_one(&mut *connection).await.map_err(|error| self.fault(&error))?;
        let ours = found.try_get::<bool, _>("ours").unwrap_or(false);
        let others = found.try_get::<i64, _>("others").unwrap_or(0);
        if !ours && others > 0 {
            return Err(StoreError::Foreign { path: self.path() });
        }
        let migrations = MIGRATIONS.map(|(version, name, sql)| {
            Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
        });
        let mut migrator = Migrator::with_migrations(migrations.into());
        // During an upgrade, gateways of the earlier version run on the newer schema: migrations only add to it.
        migrator.set_ignore_missing(true);
        match migrator.run_direct(None, connection, false).await {
            Ok(()) => Ok(()),
            Err(
                MigrateError::VersionMissing(version)
                | MigrateError::VersionMismatch(version)
                | MigrateError::Dirty(version),
            ) => Err(StoreError::OtherSchema { path: self.path(), version }),
            Err(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
                Err(self.fault(&error))
            }
            Err(error) => {
                warn!(store.address = %self.address(), %error, "the store's schema could not be migrated");
                Err(StoreError::Failed { failure: DatabaseFailure::Other })
            }
        }
    }

    /// Maps a database error, and logs its text.
    pub(super) fn fault(&self, error: &sqlx::Error) -> StoreError {
        if let sqlx::Error::PoolClosed = error {
            return StoreError::Closed;
        }
        warn!(store.address = %self.address(), %error, "the store's database reported an error");
        let reason = match error {
            sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => "it does not answer",
            sqlx::Error::Tls(_) => "no encrypted connection could be made",
            sqlx::Error::Database(error) => match error.code().as_deref().unwrap_or_default() {
                "53100" => return StoreError::Failed { failure: DatabaseFailure::DiskFull },
                "25006" => return StoreError::Failed { failure: DatabaseFailure::ReadOnly },
                "40001" | "40P01" | "55P03" | "57014" => {
                    return StoreError::Failed { failure: DatabaseFailure::Busy };
                }
                "3D000" => "it has no database of this name",
                code if code.starts_with("28") => "it refuses the user or the password",
                code if code.starts_with("53") => "it has no free connections or memory",
                code if code.starts_with("08") || code.starts_with("57P") => "it is stopping or starting",
                _ => return StoreError::Failed { failure: DatabaseFailure::Other },
            },
            _ => return StoreError::Failed { failure: DatabaseFailure::Other },
        };
        StoreError::Unreachable { address: self.address(), reason }
    }

    fn path(&self) -> PathBuf {
        self.address().into()
    }
}

/// Whether the same statements may succeed if they are sent again: the connection was lost, or another transaction was
/// in the way.
pub(super) fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(error) => {
            let code = error.code();
            let code = code.as_deref().unwrap_or_default();
            // A unique violation: another gateway has just added the row, so the next attempt finds it.
            matches!(code, "40001" | "40P01" | "55P03" | "23505" | "53300" | "25P02" | "25P03")
                || code.starts_with("08")
                || code.starts_with("57P")
        }
        _ => false,
    }
}

/// Whether the answer to a commit was lost, so that it is not known whether it happened.
pub(super) fn is_unanswered(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code();
            let code = code.as_deref().unwrap_or_default();
            code.starts_with("08") || code.starts_with("57P")
        }
        _ => true,
    }
}
