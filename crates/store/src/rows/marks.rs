//! Marks: named numbers that only grow, except for a time of day that is too far ahead.

use super::dialect::DbConnection;
use crate::sql;
use toolbooth_core::clock::MAX_CLOCK_LEAD_MS;

/// The latest time of day that was seen.
pub(crate) const CLOCK: &str = "clock";

/// Returns the mark with this name; 0 if it does not exist.
pub(crate) async fn read(connection: &mut DbConnection, name: &str) -> Result<i64, sqlx::Error> {
    let found =
        sqlx::query_scalar::<_, i64>(sql::MARK).bind(name.to_owned()).fetch_optional(connection).await?;
    Ok(found.unwrap_or(0))
}

/// Raises the time of day; keeps a later time unless it is too far ahead.
pub(crate) async fn raise_clock(connection: &mut DbConnection, at_ms: i64) -> Result<(), sqlx::Error> {
    let query = sqlx::query(sql::RAISE_CLOCK).bind(CLOCK).bind(at_ms).bind(MAX_CLOCK_LEAD_MS);
    query.execute(connection).await?;
    Ok(())
}
