//! Marks: named numbers that only grow, except for a time of day that is too far ahead.

use crate::sql;
use sqlx::SqliteConnection;
use toolbooth_core::clock::MAX_CLOCK_LEAD_MS;

/// The number of the last spool entry that is in the audit.
pub(super) const SPOOL: &str = "spool";
/// The latest time of day that was seen.
pub(super) const CLOCK: &str = "clock";

/// Returns the mark with this name; 0 if it does not exist.
pub(super) async fn read(connection: &mut SqliteConnection, name: &'static str) -> Result<i64, sqlx::Error> {
    let found = sqlx::query_scalar::<_, i64>(sql::MARK).bind(name).fetch_optional(connection).await?;
    Ok(found.unwrap_or(0))
}

/// Raises a mark; keeps a higher value.
pub(super) async fn raise(
    connection: &mut SqliteConnection,
    name: &'static str,
    value: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(sql::RAISE_MARK).bind(name).bind(value).execute(connection).await?;
    Ok(())
}

/// Raises the time of day; keeps a later time unless it is too far ahead.
pub(super) async fn raise_clock(connection: &mut SqliteConnection, at_ms: i64) -> Result<(), sqlx::Error> {
    let query = sqlx::query(sql::RAISE_CLOCK).bind(CLOCK).bind(at_ms).bind(MAX_CLOCK_LEAD_MS);
    query.execute(connection).await?;
    Ok(())
}
