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
pub(super) const MAX_READERS: u32 = 8;
/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that was idle for longer is tested before it is used.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);
/// The channel of notices.
const CHANNEL: &str = "toolbooth";
/// All migrations; a new one is a line here and a new file. A released file is never edited. During an upgrade, gateways
/// of the earlier version run on the newer schema, so a migration only adds to it (a test checks this). If one has to
/// change what is there, its name begins with [`BREAKING`].
const MIGRATIONS: [(i64, &str, &str); 9] = [
    (1, "first", include_str!("../../migrations/postgres/0001_first.sql")),
    (2, "work", include_str!("../../migrations/postgres/0002_work.sql")),
    (3, "console_sessions", include_str!("../../migrations/postgres/0003_console_sessions.sql")),
    (4, "shared", include_str!("../../migrations/postgres/0004_shared.sql")),
    (5, "call_tasks", include_str!("../../migrations/postgres/0005_call_tasks.sql")),
    (6, "held_origin", include_str!("../../migrations/postgres/0006_held_origin.sql")),
    (7, "exposed_names", include_str!("../../migrations/postgres/0007_exposed_names.sql")),
    (8, "audit_times", include_str!("../../migrations/postgres/0008_audit_times.sql")),
    (9, "audit_partitions", include_str!("../../migrations/postgres/0009_audit_partitions.sql")),
];
/// Begins the name of a migration after which gateways of earlier versions do not start.
const BREAKING: &str = "breaking";
/// The newest migration of this kind.
const LAST_BREAKING: &str = "SELECT max(version) FROM _sqlx_migrations WHERE starts_with(description, $1)";
/// Settings of the connection that writes. A gateway that stops in the middle of a transaction must not stop all others.
const SESSION: &str = "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'; \
    SET statement_timeout = '60s'";
/// Settings during a migration, which may read all rows of a large table.
const MIGRATION: &str = "SET statement_timeout = 0";

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
        // The migrations of a newer version.
        migrator.set_ignore_missing(true);
        connection.execute(MIGRATION).await.map_err(|error| self.fault(&error))?;
        let migrated = migrator.run_direct(None, &mut *connection, false).await;
        connection.execute(SESSION).await.map_err(|error| self.fault(&error))?;
        match migrated {
            Ok(()) => self.refuse_breaking(connection).await,
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

    /// Fails if a newer version has changed the schema in a way that this version does not support.
    async fn refuse_breaking(&self, connection: &mut PgConnection) -> Result<(), StoreError> {
        let last = sqlx::query_scalar::<_, Option<i64>>(LAST_BREAKING).bind(BREAKING);
        let last = last.fetch_one(connection).await.map_err(|error| self.fault(&error))?;
        let known = MIGRATIONS.map(|(version, ..)| version).into_iter().max().unwrap_or_default();
        match last {
            Some(found) if found > known => Err(StoreError::NewerSchema { path: self.path(), found, known }),
            _ => Ok(()),
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

/// Whether the same statements may succeed if they are sent again: the connection was lost, or another
/// transaction conflicted.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The first statement with which a gateway of the version before could not work, if there is one.
    fn breaking_statement(sql: &str) -> Option<String> {
        let plain: Vec<&str> = sql.lines().filter_map(|line| line.split("--").next()).collect();
        let plain = plain.join(" ").to_uppercase();
        let statements: Vec<Vec<&str>> =
            plain.split(';').map(|text| text.split_whitespace().collect()).collect();
        let created = |table: &str| {
            statements.iter().any(|words| matches!(words[..], ["CREATE", "TABLE", name, ..] if name == table))
        };
        let dropped = |constraint: &str| {
            statements
                .iter()
                .any(|words| matches!(words[..], [.., "DROP", "CONSTRAINT", name] if name == constraint))
        };
        let adds = |words: &[&str]| match words {
            [] | ["CREATE", "TABLE" | "INDEX", ..] | ["INSERT", "INTO", ..] => true,
            // On a table of the version before, its writes could fail.
            ["CREATE", "UNIQUE", "INDEX", _, "ON", table, ..] => created(table),
            ["ALTER", "TABLE", _, "ADD", "COLUMN", definition @ ..] => {
                !definition.contains(&"NOT") || definition.contains(&"DEFAULT")
            }
            ["ALTER", "TABLE", _, "DROP", "CONSTRAINT", _] => true,
            // A constraint may only be replaced, by a wider one.
            ["ALTER", "TABLE", _, "ADD", "CONSTRAINT", name, ..] => dropped(name),
            _ => false,
        };
        statements.iter().find(|words| !adds(words)).map(|words| words.join(" "))
    }

    #[test]
    fn a_breaking_statement_is_found() {
        let cases = [
            ("CREATE TABLE a (b TEXT); CREATE UNIQUE INDEX a_b ON a (b);", true),
            ("CREATE INDEX a_b ON a (b); -- DROP TABLE a;", true),
            ("ALTER TABLE a ADD COLUMN b TEXT;", true),
            ("ALTER TABLE a ADD COLUMN b TEXT NOT NULL DEFAULT 'x';", true),
            ("ALTER TABLE a DROP CONSTRAINT c; ALTER TABLE a ADD CONSTRAINT c CHECK (d > 0);", true),
            ("ALTER TABLE a ADD COLUMN b TEXT NOT NULL;", false),
            ("ALTER TABLE a ADD CONSTRAINT c CHECK (d > 0);", false),
            ("CREATE UNIQUE INDEX a_b ON a (b);", false),
            ("ALTER TABLE a DROP COLUMN b;", false),
            ("ALTER TABLE a RENAME COLUMN b TO c;", false),
            ("ALTER TABLE a ALTER COLUMN b TYPE BIGINT;", false),
            ("CREATE TABLE b (c TEXT); DROP TABLE a;", false),
            ("UPDATE a SET b = 1;", false),
        ];
        for (sql, expected) in cases {
            assert_eq!(breaking_statement(sql).is_none(), expected, "{sql}");
        }
    }

    #[test]
    fn migrations_keep_gateways_of_the_version_before_working() {
        // It stores the rows in another way; their table keeps its name, its columns and its indexes.
        const SAME_STATEMENTS: &str = "audit_partitions";
        for (version, name, sql) in MIGRATIONS {
            // The first one creates the tables.
            if version > 1 && !name.starts_with(BREAKING) && name != SAME_STATEMENTS {
                assert_eq!(breaking_statement(sql), None, "migration {version}");
            }
        }
        assert!(MIGRATIONS.is_sorted_by_key(|(version, ..)| version));
    }
}
