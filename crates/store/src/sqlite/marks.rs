//! Marks: named numbers that only grow.

use crate::sql;
use sqlx::SqliteConnection;

/// The last note of the spool that is in the audit.
pub(super) const SPOOL: &str = "spool";
/// The latest time of day that was seen.
pub(super) const CLOCK: &str = "clock";

/// The mark of that name; 0 if there is none.
pub(super) async fn read(connection: &mut SqliteConnection, name: &'static str) -> Result<i64, sqlx::Error> {
    let found = sqlx::query_scalar::<_, i64>(sql::MARK).bind(name).fetch_optional(connection).await?;
    Ok(found.unwrap_or(0))
}

/// Raises a mark; one that is higher stays.
pub(super) async fn raise(
    connection: &mut SqliteConnection,
    name: &'static str,
    value: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(sql::RAISE_MARK).bind(name).bind(value).execute(connection).await?;
    Ok(())
}
