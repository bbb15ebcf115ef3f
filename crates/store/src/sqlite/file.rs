//! The database file: where it is, who may read it, how it is opened and what its errors mean.

use super::lock::Lock;
use crate::{StoreError, Trouble};
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

/// Marks a file as ours in SQLite's own header ("TBth").
const APPLICATION_ID: i64 = 0x5442_7468;
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Every schema since the first; a new one is a line here and a file beside the others. A file that was released is
/// never edited, not even its comments: every database holds its checksum. That is why `0011` repeats the columns of `0003`.
const MIGRATIONS: [(i64, &str, &str); 11] = [
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
];

/// A database file that this process has claimed.
#[derive(Debug, Clone)]
pub(super) struct DatabaseFile {
    path: Arc<Path>,
}

impl DatabaseFile {
    /// Makes the file and its folder where they are missing, and claims them for this process.
    pub(super) fn claim(path: &Path) -> Result<(Self, Lock), StoreError> {
        let path =
            settle(path).map_err(|error| StoreError::Open { path: path.to_owned(), reason: error.kind() })?;
        let lock = Lock::claim(&path)?;
        make_private(&path).map_err(|error| StoreError::Open { path: path.clone(), reason: error.kind() })?;
        Ok((Self { path: path.into() }, lock))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A connection that writes, to a database that is ours and has the newest schema.
    pub(super) async fn connect_writer(&self) -> Result<SqliteConnection, StoreError> {
        let options = self
            .options()
            .pragma("cache_size", "-1024")
            .pragma("journal_size_limit", "8388608")
            // What is deleted may have been a secret.
            .pragma("secure_delete", "on");
        let mut connection = self.noted(options.connect().await)?;
        // Nothing is written, not even the journal's mode, before the file is known to be ours.
        let newborn = self.inspect(&mut connection).await?;
        let mode = sqlx::query_scalar::<_, String>("PRAGMA journal_mode = WAL");
        let mode = self.noted(mode.fetch_one(&mut connection).await)?;
        if mode != "wal" {
            warn!(store.path = %self.path.display(), mode, "the store cannot use a write-ahead log here and is slower");
        }
        // A schema that a power cut takes back is made again at the next start, so its steps need
        // not wait for the disk; everything after them does.
        self.noted(connection.execute("PRAGMA synchronous = NORMAL").await)?;
        if newborn {
            let mark = sqlx::AssertSqlSafe(format!("PRAGMA application_id = {APPLICATION_ID}"));
            self.noted(connection.execute(mark).await)?;
        }
        self.migrate(&mut connection).await?;
        self.noted(connection.execute("PRAGMA synchronous = FULL").await)?;
        Ok(connection)
    }

    /// A connection that reads.
    pub(super) async fn connect_reader(&self) -> Result<SqliteConnection, StoreError> {
        let options = self.options().read_only(true).pragma("cache_size", "-512");
        self.noted(options.connect().await)
    }

    /// What a database's error means; its own words go to the log.
    pub(super) fn fault(&self, error: &sqlx::Error) -> StoreError {
        warn!(store.path = %self.path.display(), %error, "the store's database reported an error");
        let code = match error {
            sqlx::Error::Io(error) => {
                return StoreError::Open { path: self.path.to_path_buf(), reason: error.kind() };
            }
            sqlx::Error::Database(error) => error.code().and_then(|code| code.parse::<i32>().ok()),
            _ => None,
        };
        // The low byte of SQLite's result codes says the kind, the rest only refines it.
        let trouble = match code.map(|code| code & 0xff) {
            Some(11 | 26) => return StoreError::Corrupt { path: self.path.to_path_buf() },
            Some(13) => Trouble::DiskFull,
            Some(10 | 14) => Trouble::Disk,
            Some(3 | 8) => Trouble::ReadOnly,
            Some(5 | 6) => Trouble::Busy,
            _ => Trouble::Other,
        };
        StoreError::Failed { trouble }
    }

    fn noted<T>(&self, result: Result<T, sqlx::Error>) -> Result<T, StoreError> {
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

    /// Whether the database is new; an error if it is somebody else's.
    async fn inspect(&self, connection: &mut SqliteConnection) -> Result<bool, StoreError> {
        let tables = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM sqlite_schema");
        let tables = self.noted(tables.fetch_one(&mut *connection).await)?;
        let mark = sqlx::query_scalar::<_, i64>("PRAGMA application_id");
        match (tables, self.noted(mark.fetch_one(connection).await)?) {
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
        // `Migrator::run` would do, if the compiler could see that its future may change threads.
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
                warn!(store.path = %path.display(), %error, "the store's schema could not be made");
                Err(StoreError::Failed { trouble: Trouble::Other })
            }
        }
    }
}

/// Closes a connection that has failed or is not needed; what it says then helps nobody.
pub(super) async fn discard(connection: SqliteConnection) {
    let _ = connection.close().await;
}

/// The file's one true path, so that two spellings of it meet at one lock.
fn settle(path: &Path) -> io::Result<PathBuf> {
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

/// Must come before any connection: closing a file drops the locks that SQLite has on it in this process.
fn make_private(path: &Path) -> io::Result<()> {
    // SQLite gives its journal files the mode of the database, so this one is enough.
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        warn!(store.path = %path.display(), "the store holds secrets, but others than its owner may open it");
    }
    Ok(())
}
