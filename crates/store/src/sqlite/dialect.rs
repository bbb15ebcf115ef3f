//! The types of SQLite, and the SQL that differs from PostgreSQL's.

pub(super) use super::SqliteStore as StoreBackend;
pub(super) use super::file::DatabaseFile as DbSource;
pub(super) use sqlx::Sqlite as Db;
pub(super) use sqlx::sqlite::{
    SqliteArguments as DbArguments, SqliteConnection as DbConnection, SqliteRow as DbRow,
};

use super::rows::audit::{SIZES, bind_end};
use super::rows::change::SweepScope;
use crate::sql::audit::{ADD_AUDIT, AUDIT_WIDTH, result_sizes};
use std::sync::LazyLock;
use toolbooth_core::audit::ChainHead;

/// Only one gateway uses the database.
pub(super) const SHARED: bool = false;

/// Begins a transaction that reads one state of the database.
pub(super) const SNAPSHOT: &str = "BEGIN";

/// The same, if the whole audit is read.
pub(super) const AUDIT_SNAPSHOT: &str = SNAPSHOT;

/// The condition on the user if the id of the call is given: the id finds the row. With the plus sign, the index of
/// users is not used instead of that of ids.
pub(super) const USER_OF_CALL: &str = " AND +user_name = ";

/// The condition on text in the name of a tool; the text and `) > 0` follow.
pub(super) const NAME_CONTAINS: &str =
    " AND instr(lower(coalesce(server, '') || '_' || coalesce(tool, '')), ";

/// The size of a call's result, from the detail of its row. A detail that SQLite does not read as JSON (it may be nested
/// too deep) has none.
const RESULT_SIZE: &str = "CASE WHEN json_valid(detail) THEN json_extract(detail, '$.result_bytes') END";

/// The statement that adds up the sizes of results.
pub(super) static RESULT_SIZES: LazyLock<String> = LazyLock::new(|| result_sizes(RESULT_SIZE));

/// Appended to the statement that selects rows to claim; here no other process claims any.
pub(super) const SKIP_LOCKED: &str = "";

// Unnumbered, because it follows the rows in one statement.
const SET_HEAD: &str = "\
    INSERT INTO audit_ends (name, seq, position, hash) VALUES (?, ?, ?, ?) \
    ON CONFLICT (name) DO UPDATE SET seq = excluded.seq, position = excluded.position, hash = excluded.hash";

static ADD_ROWS: LazyLock<[String; SIZES.len()]> = LazyLock::new(|| {
    SIZES.map(|rows| {
        let row = format!("({})", vec!["?"; AUDIT_WIDTH].join(", "));
        format!("{ADD_AUDIT}{}; {SET_HEAD}", vec![row; rows].join(", "))
    })
});

/// Nothing to do after a copy: SQLite numbers new rows after the highest number.
pub(super) async fn after_copy(
    connection: &mut DbConnection,
    table: &'static str,
) -> Result<(), sqlx::Error> {
    let _ = (connection, table);
    Ok(())
}

/// Nothing to do before rows are added to the audit: SQLite has no partitions.
pub(super) async fn make_room(
    connection: &mut DbConnection,
    known: &mut Option<u64>,
    last: u64,
) -> Result<(), sqlx::Error> {
    let _ = (connection, known, last);
    Ok(())
}

/// Whether old rows of the audit are deleted one by one.
pub(super) fn purges_rows(oldest: &ChainHead, head: &ChainHead) -> bool {
    let _ = (oldest, head);
    true
}

/// The condition on interrupted work: no other gateway can have any.
pub(super) fn interrupted(scope: SweepScope) -> &'static str {
    match scope {
        SweepScope::Start => "",
        SweepScope::Lost => " AND false",
    }
}

/// Adds as many audit rows as `SIZES` has at this place, and stores the end of the chain.
pub(super) async fn add_audit(
    connection: &mut DbConnection,
    place: usize,
    mut values: DbArguments,
    head: &ChainHead,
) -> Result<(), sqlx::Error> {
    bind_end(&mut values, "head", head).map_err(sqlx::Error::Encode)?;
    sqlx::query_with(ADD_ROWS[place].as_str(), values).execute(connection).await?;
    Ok(())
}
