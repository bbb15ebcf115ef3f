//! Copies a store: to another store (`migrate`), to a file (`back_up`), and from a file (`restore`).
//!
//! Rows are read from one snapshot of the source, page by page, and written in transactions. Each transaction also stores
//! how far the copy of its table is, so a copy that was interrupted continues there. At the end the numbers of rows are
//! compared and the audit of the destination is verified.

mod dump;
mod error;
mod tables;

pub use error::TransferError;
pub(crate) use tables::{ColumnKind, StoreTable, TABLES, TablePaging};

use crate::limits::Retention;
use crate::{PostgresStore, SqliteStore, Store, StoreError, StoreUrl};
use async_trait::async_trait;
use dump::{BackupReader, BackupWriter};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;
use toolbooth_core::json::RawJson;

/// The key that seals request states. A restored store gets a new one: states that were used after the backup would be
/// usable again.
const STATE_KEY: &str = "request-state-key";
/// The mark with the source of the copy.
const SOURCE_MARK: &str = "transfer";

/// One row: a value for each column of its table. Bytes are hexadecimal text.
pub(crate) type TransferRow = Vec<serde_json::Value>;

/// A page of rows, and the place in the table after it.
#[derive(Debug, Clone, Default)]
pub(crate) struct TablePage {
    pub(crate) place: i64,
    pub(crate) rows: Vec<TransferRow>,
}

/// The source of a copy.
#[async_trait]
pub(crate) trait TransferSource: Send {
    /// The keys of the installation.
    fn keys(&self) -> Vec<(String, Vec<u8>)>;

    /// The rows of a table after this place; an empty page at the end.
    async fn page(&mut self, table: &'static StoreTable, after: i64) -> Result<TablePage, TransferError>;

    /// The number of rows of a table.
    async fn count(&mut self, table: &'static StoreTable) -> Result<u64, TransferError>;

    /// Closes the connection, if there is one.
    async fn close(self: Box<Self>) {}
}

/// The destination of a copy.
#[async_trait]
pub(crate) trait TransferTarget: Store {
    /// Adds the rows of a page, and stores the place after it.
    async fn add_page(&self, table: &'static StoreTable, page: TablePage) -> Result<(), StoreError>;

    /// Makes new rows continue after the copied ones.
    async fn end_copy(&self) -> Result<(), StoreError>;

    /// A number that was stored during the copy; 0 if none.
    async fn copy_mark(&self, name: &str) -> Result<i64, StoreError>;

    /// Stores a number.
    async fn set_copy_mark(&self, name: &str, value: i64) -> Result<(), StoreError>;

    /// The number of rows of a table.
    async fn row_count(&self, table: &'static StoreTable) -> Result<u64, StoreError>;
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransferReport {
    /// The rows of each table.
    pub tables: Vec<(&'static str, u64)>,
    /// The number of keys.
    pub keys: usize,
    /// The verified rows of the audit; `None` if there is no destination that could be verified.
    pub audit_rows: Option<u64>,
}

impl TransferReport {
    /// The rows of all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|(_, rows)| rows).sum()
    }
}

/// Copies a store to another one. No gateway may use either of them. Continues a copy of the same source that was
/// interrupted.
pub async fn migrate(from: &StoreUrl, to: &StoreUrl) -> Result<TransferReport, TransferError> {
    // Locks a SQLite database against gateways, and adds what is left in its spool.
    let locked = match from {
        // Opening it would create an empty database; a snapshot reports that it is missing.
        StoreUrl::Sqlite(path) if !path.exists() => {
            snapshot(from).await?.close().await;
            None
        }
        StoreUrl::Sqlite(path) => Some(SqliteStore::open(path, Retention::default()).await?),
        StoreUrl::Postgres(_) | StoreUrl::Memory => None,
    };
    let mut source = snapshot(from).await?;
    let target = open_target(to).await?;
    let named = match from {
        StoreUrl::Postgres(url) => url.expose().to_owned(),
        other => other.to_string(),
    };
    let copied = copy(&mut *source, &*target, mark_of(named.as_bytes()), KeysCopied::All).await;
    source.close().await;
    target.close().await;
    if let Some(locked) = locked {
        locked.close().await;
    }
    copied
}

/// Writes a store to a file, also while gateways use it.
pub async fn back_up(from: &StoreUrl, file: &Path) -> Result<TransferReport, TransferError> {
    let mut source = snapshot(from).await?;
    let mut writer = BackupWriter::create(file)?;
    let keys = source.keys();
    for (name, value) in &keys {
        writer.key(name, value)?;
    }
    let mut report = TransferReport { keys: keys.len(), ..TransferReport::default() };
    for table in &TABLES {
        let (mut place, mut rows) = (0, 0);
        loop {
            let page = source.page(table, place).await?;
            if page.rows.is_empty() {
                break;
            }
            (place, rows) = (page.place, rows + page.rows.len() as u64);
            writer.page(table, &page)?;
        }
        report.tables.push((table.name, rows));
    }
    source.close().await;
    writer.finish(&report.tables)?;
    Ok(report)
}

/// Fills an empty store from a backup. Continues if it was interrupted.
pub async fn restore(file: &Path, to: &StoreUrl) -> Result<TransferReport, TransferError> {
    let mut source = BackupReader::open(file)?;
    let target = open_target(to).await?;
    let mark = mark_of(&source.digest());
    let copied = copy(&mut source, &*target, mark, KeysCopied::ExceptStates).await;
    target.close().await;
    copied
}

/// Which keys are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeysCopied {
    All,
    ExceptStates,
}

async fn snapshot(url: &StoreUrl) -> Result<Box<dyn TransferSource>, TransferError> {
    match url {
        StoreUrl::Memory => Err(TransferError::Memory),
        StoreUrl::Sqlite(path) => Ok(Box::new(SqliteStore::snapshot(path).await?)),
        StoreUrl::Postgres(url) => Ok(Box::new(PostgresStore::snapshot(url).await?)),
    }
}

async fn open_target(url: &StoreUrl) -> Result<Arc<dyn TransferTarget>, TransferError> {
    match url {
        StoreUrl::Memory => Err(TransferError::Memory),
        StoreUrl::Sqlite(path) => Ok(Arc::new(SqliteStore::open(path, Retention::default()).await?)),
        StoreUrl::Postgres(url) => Ok(Arc::new(PostgresStore::open(url, Retention::default()).await?)),
    }
}

async fn copy(
    source: &mut dyn TransferSource,
    target: &dyn TransferTarget,
    mark: i64,
    keys_copied: KeysCopied,
) -> Result<TransferReport, TransferError> {
    if target.copy_mark(SOURCE_MARK).await? != mark {
        for table in TABLES.iter().filter(|table| table.name != "audit_ends") {
            let rows = target.row_count(table).await?;
            if rows > 0 {
                return Err(TransferError::NotEmpty { table: table.name, rows });
            }
        }
        target.set_copy_mark(SOURCE_MARK, mark).await?;
    }
    let mut report = TransferReport::default();
    for (name, value) in source.keys() {
        if keys_copied == KeysCopied::ExceptStates && name == STATE_KEY {
            continue;
        }
        let stored = target.get_or_create_secret(&name, &|| value.clone()).await?;
        if stored != value {
            return Err(TransferError::NotEmpty { table: "secrets", rows: 1 });
        }
        report.keys += 1;
    }
    for table in &TABLES {
        let mut place = target.copy_mark(&place_mark(table)).await?;
        loop {
            let page = source.page(table, place).await?;
            if page.rows.is_empty() {
                break;
            }
            place = page.place;
            target.add_page(table, page).await?;
        }
        let (expected, copied) = (source.count(table).await?, target.row_count(table).await?);
        if expected != copied {
            return Err(TransferError::Count { table: table.name, expected, copied });
        }
        tracing::info!(table = table.name, rows = copied, "copied");
        report.tables.push((table.name, copied));
    }
    target.end_copy().await?;
    let verified = target.verify_audit().await?;
    if let Some(bad) = verified.first_bad {
        return Err(TransferError::Audit { row: bad.seq });
    }
    report.audit_rows = Some(verified.rows);
    Ok(report)
}

/// The name of the mark with the place in a table.
pub(crate) fn place_mark(table: &StoreTable) -> String {
    format!("transfer:{}", table.name)
}

fn mark_of(source: &[u8]) -> i64 {
    let digest = Sha256::digest(source);
    let first: [u8; 8] = std::array::from_fn(|place| digest[place]);
    // Positive and not 0, which means that there is no mark.
    (i64::from_le_bytes(first) & i64::MAX).max(1)
}

/// The value as JSON text, for one line of a backup.
fn line_of(value: &serde_json::Value) -> String {
    RawJson::from_value(value).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{AssertSqlSafe, ConnectOptions, Row};
    use std::collections::{BTreeMap, BTreeSet};

    /// Tables of one database only, the keys, and sessions of the console.
    const LEFT_OUT: [&str; 3] = ["_sqlx_migrations", "secrets", "console_sessions"];

    #[tokio::test]
    async fn every_table_and_column_is_copied() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("toolbooth.db");
        SqliteStore::open(&path, Retention::default()).await.expect("opens").close().await;
        let mut plain = SqliteConnectOptions::new().filename(&path).connect().await.expect("opens");
        let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
        let names = sqlx::query_scalar::<_, String>(tables).fetch_all(&mut plain).await.expect("tables");
        let mut present = BTreeMap::new();
        for name in names.into_iter().filter(|name| !LEFT_OUT.contains(&name.as_str())) {
            let columns = AssertSqlSafe(format!("PRAGMA table_info({name})"));
            let columns = sqlx::query(columns).fetch_all(&mut plain).await.expect("columns");
            let columns: BTreeSet<String> = columns.iter().map(|row| row.get("name")).collect();
            present.insert(name, columns);
        }
        let names = |table: &StoreTable| table.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let copied: BTreeMap<String, BTreeSet<String>> =
            TABLES.iter().map(|table| (table.name.to_owned(), names(table))).collect();
        assert_eq!(copied, present);
    }
}
