//! Marks: named numbers that only grow, except for a time of day that cannot be true.

use crate::limits::MAX_CLOCK_LEAD_MS;
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

/// Raises the time of day; a later one stays, unless it is too far ahead to be true.
pub(super) async fn raise_clock(connection: &mut SqliteConnection, at_ms: i64) -> Result<(), sqlx::Error> {
    let query = sqlx::query(sql::RAISE_CLOCK).bind(CLOCK).bind(at_ms).bind(MAX_CLOCK_LEAD_MS);
    query.execute(connection).await?;
    Ok(())
}
