//! The database file: its path and permissions, its connections, its schema, and the mapping of its errors.

use super::lock::Lock;
use crate::{DatabaseFailure, StoreError};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor, SqlSafeStr};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// The application id in SQLite's header ("TBth"), which marks a database of Toolbooth.
const APPLICATION_ID: i64 = 0x5442_7468;
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// All migrations; a new one is a line here and a new file. A released file is never edited, not even its comments:
/// every database holds its checksum. That is why `0011` repeats the columns of `0003`.
const MIGRATIONS: [(i64, &str, &str); 19] = [
    (1, "first", include_str!("../../migrations/sqlite/0001_first.sql")),
    (2, "tokens", include_str!("../../migrations/sqlite/0002_tokens.sql")),
    (3, "held", include_str!("../../migrations/sqlite/0003_held.sql")),
    (4, "audit", include_str!("../../migrations/sqlite/0004_audit.sql")),
    (5, "files", include_str!("../../migrations/sqlite/0005_files.sql")),
    (6, "letters", include_str!("../../migrations/sqlite/0006_letters.sql")),
    (7, "health", include_str!("../../migrations/sqlite/0007_health.sql")),
    (8, "quality", include_str!("../../migrations/sqlite/0008_quality.sql")),
    (9, "pieces", include_str!("../../migrations/sqlite/0009_pieces.sql")),
    (10, "marks", include_str!("../../migrations/sqlite/0010_marks.sql")),
    (11, "identified", include_str!("../../migrations/sqlite/0011_identified.sql")),
    (12, "call_records", include_str!("../../migrations/sqlite/0012_call_records.sql")),
    (13, "work", include_str!("../../migrations/sqlite/0013_work.sql")),
    (14, "console_sessions", include_str!("../../migrations/sqlite/0014_console_sessions.sql")),
    (15, "shared", include_str!("../../migrations/sqlite/0015_shared.sql")),
    (16, "call_tasks", include_str!("../../migrations/sqlite/0016_call_tasks.sql")),
    (17, "held_origin", include_str!("../../migrations/sqlite/0017_held_origin.sql")),
    (18, "exposed_names", include_str!("../../migrations/sqlite/0018_exposed_names.sql")),
    (19, "audit_times", include_str!("../../migrations/sqlite/0019_audit_times.sql")),
];

/// A database file that this process has locked.
#[derive(Debug, Clone)]
pub(super) struct DatabaseFile {
    path: Arc<Path>,
}

impl DatabaseFile {
    /// Creates the file and its folder if they are missing, and locks the database for this process.
    pub(super) fn claim(path: &Path) -> Result<(Self, Lock), StoreError> {
        let path = canonical(path)
            .map_err(|error| StoreError::Open { path: path.to_owned(), reason: error.kind() })?;
        let lock = Lock::claim(&path)?;
        make_private(&path).map_err(|error| StoreError::Open { path: path.clone(), reason: error.kind() })?;
        Ok((Self { path: path.into() }, lock))
    }

    /// An existing file, which another process may have locked.
    pub(super) fn existing(path: &Path) -> Result<Self, StoreError> {
        let found = path.canonicalize();
        let path = found.map_err(|error| StoreError::Open { path: path.to_owned(), reason: error.kind() })?;
        Ok(Self { path: path.into() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the write connection, checks that the database is Toolbooth's, and migrates it to the newest schema.
    pub(super) async fn connect_writer(&self) -> Result<SqliteConnection, StoreError> {
        let options = self
            .options()
            .pragma("cache_size", "-1024")
            .pragma("journal_size_limit", "8388608")
            // Deleted content may have been a secret.
            .pragma("secure_delete", "on");
        let mut connection = self.checked(options.connect().await)?;
        // Nothing is written, not even the journal mode, before the database is known to be Toolbooth's.
        let is_new = self.inspect(&mut connection).await?;
        let mode = sqlx::query_scalar::<_, String>("PRAGMA journal_mode = WAL");
        let mode = self.checked(mode.fetch_one(&mut connection).await)?;
        if mode != "wal" {
            warn!(store.path = %self.path.display(), mode, "the store cannot use a write-ahead log here, so it is slower");
        }
        // If a power cut undoes a migration, the next start runs it again, so migrations do not wait
        // for the disk. All later commits do.
        self.checked(connection.execute("PRAGMA synchronous = NORMAL").await)?;
        if is_new {
            let mark = sqlx::AssertSqlSafe(format!("PRAGMA application_id = {APPLICATION_ID}"));
            self.checked(connection.execute(mark).await)?;
        }
        self.migrate(&mut connection).await?;
        self.checked(connection.execute("PRAGMA synchronous = FULL").await)?;
        Ok(connection)
    }

    /// Opens a read-only connection.
    pub(super) async fn connect_reader(&self) -> Result<SqliteConnection, StoreError> {
        let options = self.options().read_only(true).pragma("cache_size", "-512");
        self.checked(options.connect().await)
    }

    /// Maps a database error, and logs its text.
    pub(super) fn fault(&self, error: &sqlx::Error) -> StoreError {
        warn!(store.path = %self.path.display(), %error, "the store's database reported an error");
        let code = match error {
            sqlx::Error::Io(error) => {
                return StoreError::Open { path: self.path.to_path_buf(), reason: error.kind() };
            }
            sqlx::Error::Database(error) => error.code().and_then(|code| code.parse::<i32>().ok()),
            _ => None,
        };
        // The low byte of SQLite's result codes is the kind; the rest only refines it.
        let failure = match code.map(|code| code & 0xff) {
            Some(11 | 26) => return StoreError::Corrupt { path: self.path.to_path_buf() },
            Some(13) => DatabaseFailure::DiskFull,
            Some(10 | 14) => DatabaseFailure::Disk,
            Some(3 | 8) => DatabaseFailure::ReadOnly,
            Some(5 | 6) => DatabaseFailure::Busy,
            _ => DatabaseFailure::Other,
        };
        StoreError::Failed { failure }
    }

    fn checked<T>(&self, result: Result<T, sqlx::Error>) -> Result<T, StoreError> {
        result.map_err(|error| self.fault(&error))
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(&*self.path)
            .create_if_missing(false)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            .statement_cache_capacity(32)
            .thread_name(|number| format!("store-{number}"))
            .disable_statement_logging()
    }

    /// Returns whether the database is new; fails if it belongs to another program.
    async fn inspect(&self, connection: &mut SqliteConnection) -> Result<bool, StoreError> {
        let tables = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM sqlite_schema");
        let tables = self.checked(tables.fetch_one(&mut *connection).await)?;
        let mark = sqlx::query_scalar::<_, i64>("PRAGMA application_id");
        match (tables, self.checked(mark.fetch_one(connection).await)?) {
            (_, APPLICATION_ID) => Ok(false),
            (0, 0) => Ok(true),
            _ => Err(StoreError::Foreign { path: self.path.to_path_buf() }),
        }
    }

    async fn migrate(&self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        let migrations = MIGRATIONS.map(|(version, name, sql)| {
            Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
        });
        let path = self.path.to_path_buf();
        let known = MIGRATIONS.map(|(version, ..)| version).into_iter().max().unwrap_or_default();
        // Not `Migrator::run`: the compiler cannot prove that its future is `Send`.
        match Migrator::with_migrations(migrations.into()).run_direct(None, connection, false).await {
            Ok(()) => Ok(()),
            Err(MigrateError::VersionMissing(found)) if found > known => {
                Err(StoreError::NewerSchema { path, found, known })
            }
            Err(
                MigrateError::VersionMissing(version)
                | MigrateError::VersionMismatch(version)
                | MigrateError::Dirty(version),
            ) => Err(StoreError::OtherSchema { path, version }),
            Err(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
                Err(self.fault(&error))
            }
            Err(error) => {
                warn!(store.path = %path.display(), %error, "the store's schema could not be migrated");
                Err(StoreError::Failed { failure: DatabaseFailure::Other })
            }
        }
    }
}

/// Closes a connection that has failed or is not needed, and ignores its errors.
pub(super) async fn discard(connection: SqliteConnection) {
    let _ = connection.close().await;
}

/// The canonical path of the file, so that two spellings of it use the same lock. Creates the folder.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(folder.canonicalize()?.join(name)),
        found => found,
    }
}

/// Creates the file, readable by its owner only. Must run before any connection is open: closing a file drops the locks
/// that SQLite has on it in this process.
fn make_private(path: &Path) -> io::Result<()> {
    // SQLite gives its journal files the mode of the database.
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        warn!(store.path = %path.display(), "the store holds secrets, but users other than its owner can open it");
    }
    Ok(())
}
