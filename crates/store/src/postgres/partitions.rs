//! The partitions of the audit log: creates them before they are needed, and drops those whose rows are all too old.
//!
//! A partition `audit_to_N` has the rows up to `N - 1`. Each gateway keeps room for the rows of an earlier version, which
//! does not create partitions.

use super::database::{Database, is_transient};
use super::rows::audit::{bind_end, chain_head};
use crate::limits::AuditRetention;
use crate::sql::audit::SET_AUDIT_END;
use sqlx::postgres::{PgArguments, PgConnection, PgPool};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use toolbooth_core::audit::ChainHead;

/// The rows of a partition. The room after the last row is at least as large.
const PARTITION_ROWS: u64 = 20_000_000;
/// The beginning of the names of partitions; the number after the last row follows.
const PREFIX: &str = "audit_to_";

const NAMES: &str = "SELECT relname::text FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid \
    WHERE inhparent = 'audit'::regclass";
const LOCK_BASE: &str = "SELECT seq, position, hash FROM audit_ends WHERE name = 'base' FOR UPDATE";
const HEAD: &str = "SELECT seq, position, hash FROM audit_ends WHERE name = 'head'";
// Calls must not wait for long: all readers and writers of the log wait behind this lock.
const LOCK_BRIEFLY: &str = "SET LOCAL lock_timeout = '300ms'";

/// The numbers after the last row of each partition, lowest first.
async fn ends(connection: &mut PgConnection) -> Result<Vec<u64>, sqlx::Error> {
    let names = sqlx::query_scalar::<_, String>(NAMES).fetch_all(connection).await?;
    let mut ends: Vec<u64> =
        names.iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).collect();
    ends.sort_unstable();
    Ok(ends)
}

/// The bounds of the partitions to create, so that there is room after `last`.
fn missing(end: u64, last: u64) -> Vec<(u64, u64)> {
    let mut bounds = Vec::new();
    let mut from = end;
    while from <= last.saturating_add(PARTITION_ROWS) {
        // The first one may be larger: copied rows may begin at any number.
        let to = (from.max(last) / PARTITION_ROWS + 1) * PARTITION_ROWS;
        bounds.push((from, to));
        from = to;
    }
    bounds
}

/// Makes room for the row `last` and those after it. `known` is the end of the partitions, if it is known.
pub(super) async fn make_room(
    connection: &mut PgConnection,
    known: &mut Option<u64>,
    last: u64,
) -> Result<(), sqlx::Error> {
    if known.is_some_and(|end| end > last.saturating_add(PARTITION_ROWS)) {
        return Ok(());
    }
    let mut end = ends(connection).await?.last().copied().unwrap_or(0);
    for (from, to) in missing(end, last) {
        // Attached instead of created in place: this does not wait for readers.
        let create = format!(
            "CREATE TABLE {PREFIX}{to} (LIKE audit INCLUDING DEFAULTS INCLUDING CONSTRAINTS); \
            ALTER TABLE audit ATTACH PARTITION {PREFIX}{to} FOR VALUES FROM ({from}) TO ({to})"
        );
        connection.execute(AssertSqlSafe(create)).await?;
        end = to;
    }
    *known = Some(end);
    Ok(())
}

/// Whether old rows are deleted one by one. If they are many, whole partitions are dropped instead.
pub(super) fn purges_rows(oldest: &ChainHead, head: &ChainHead) -> bool {
    head.seq.saturating_sub(oldest.seq) <= 2 * PARTITION_ROWS
}

/// Drops the partitions whose rows are all too old, and stores where the chain then begins.
pub(super) async fn drop_old(
    database: &Database,
    readers: &PgPool,
    retention: AuditRetention,
    now_ms: i64,
) -> Result<(), sqlx::Error> {
    // Most logs have one partition, so no further connection is opened.
    if full_partition(&mut *readers.acquire().await?).await?.is_none() {
        return Ok(());
    }
    let mut connection = database.connect_writer().await?;
    let dropped = loop {
        match drop_oldest(&mut connection, retention, now_ms).await {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            // A reader has a lock, or another gateway does the same. The next purge tries again.
            Err(error) if is_transient(&error) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let _ = connection.close().await;
    dropped
}

/// The end of the oldest partition, if no row can be added to it any more, and the end of the chain.
async fn full_partition(connection: &mut PgConnection) -> Result<Option<(u64, ChainHead)>, sqlx::Error> {
    let head = sqlx::query(HEAD).fetch_optional(&mut *connection).await?;
    let Some(head) = head.as_ref().and_then(chain_head) else { return Ok(None) };
    let oldest = ends(connection).await?.first().copied();
    Ok(oldest.filter(|end| *end <= head.seq).map(|end| (end, head)))
}

async fn drop_oldest(
    connection: &mut PgConnection,
    retention: AuditRetention,
    now_ms: i64,
) -> Result<bool, sqlx::Error> {
    let mut change = connection.begin().await?;
    change.execute(LOCK_BRIEFLY).await?;
    // One gateway at a time.
    let base = sqlx::query(LOCK_BASE).fetch_optional(&mut *change).await?;
    let Some(base) = base.as_ref().and_then(chain_head) else { return Ok(false) };
    let Some((end, head)) = full_partition(&mut change).await? else { return Ok(false) };
    let last = format!(
        "SELECT seq, position, hash, (SELECT max(at_ms) FROM {PREFIX}{end}) AS at_ms FROM {PREFIX}{end} \
        ORDER BY seq DESC LIMIT 1"
    );
    let last = sqlx::query(AssertSqlSafe(last)).fetch_optional(&mut *change).await?;
    if let Some(last) = last {
        // A row that cannot be read is kept for inspection.
        let Some(place) = chain_head(&last) else { return Ok(false) };
        if !retention.is_over(last.try_get("at_ms")?, place.position, head.position, now_ms) {
            return Ok(false);
        }
        if place.seq > base.seq {
            let mut values = PgArguments::default();
            bind_end(&mut values, "base", &place).map_err(sqlx::Error::Encode)?;
            sqlx::query_with(SET_AUDIT_END, values).execute(&mut *change).await?;
        }
    }
    change.execute(AssertSqlSafe(format!("DROP TABLE {PREFIX}{end}"))).await?;
    change.commit().await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_room_for_a_partition() {
        const MILLION: u64 = 1_000_000;
        let cases = [
            (40 * MILLION, 5, vec![]),
            (40 * MILLION, 19 * MILLION, vec![]),
            (40 * MILLION, 20 * MILLION, vec![(40 * MILLION, 60 * MILLION)]),
            // Rows that were copied begin far behind the last partition.
            (
                40 * MILLION,
                505 * MILLION,
                vec![(40 * MILLION, 520 * MILLION), (520 * MILLION, 540 * MILLION)],
            ),
            (300, 10, vec![(300, 20 * MILLION), (20 * MILLION, 40 * MILLION)]),
        ];
        for (end, last, expected) in cases {
            assert_eq!(missing(end, last), expected, "{end} {last}");
        }
    }
}
