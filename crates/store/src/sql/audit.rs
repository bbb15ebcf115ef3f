//! Statements on the audit.

/// The columns of a row, in the order in which they are written and read.
macro_rules! audit_columns {
    () => {
        "seq, at_ms, kind, call_id, user_name, decided_by, persona, client, server, tool, outcome, code, \
        duration_ms, arguments_sha256, position, hash, arguments_preview, detail"
    };
}

/// The number of these columns.
pub(crate) const AUDIT_WIDTH: usize = 18;

// The caller appends one group of placeholders per row.
pub(crate) const ADD_AUDIT: &str = concat!("INSERT INTO audit (", audit_columns!(), ") VALUES ");

pub(crate) const AUDIT_AFTER: &str =
    concat!("SELECT ", audit_columns!(), " FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2");

// The caller appends conditions, order and limit.
pub(crate) const AUDIT_ROWS: &str = concat!("SELECT ", audit_columns!(), " FROM audit WHERE true");

// Appended to it: bounds by number, which `ORDER BY seq` can use. The caller appends the exact conditions on the time.
pub(crate) const AUDIT_SINCE: &str = " AND seq > coalesce((SELECT seq FROM audit WHERE at_ms < ";
pub(crate) const AUDIT_SINCE_END: &str = " ORDER BY at_ms DESC LIMIT 1), 0)";
pub(crate) const AUDIT_UNTIL: &str = " AND seq < coalesce((SELECT seq FROM audit WHERE at_ms >= ";
pub(crate) const AUDIT_UNTIL_END: &str = " ORDER BY at_ms LIMIT 1), 9223372036854775807)";

/// Counts the newest rows of a time range by step and outcome. The index on the time has all columns that are used.
macro_rules! call_counts {
    ($calls:literal) => {
        concat!(
            "SELECT (at_ms - $1) / $4 AS step, outcome, ",
            $calls,
            " AS calls, count(*) AS rows_read, min(at_ms) AS oldest_ms FROM \
            (SELECT at_ms, user_name, outcome FROM audit \
            WHERE at_ms >= $1 AND at_ms < $2 AND kind = 'call' ORDER BY at_ms DESC LIMIT $3) AS newest \
            GROUP BY 1, 2"
        )
    };
}

pub(crate) const CALL_COUNTS: &str = call_counts!("count(*)");

// Rows of other users are read, too, so that the limit holds for them.
pub(crate) const CALL_COUNTS_OF_USER: &str = call_counts!("sum(CASE WHEN user_name = $5 THEN 1 ELSE 0 END)");

/// Adds up the sizes of the results of the newest calls of a time range, of one user or (without `$4`) of all. Rows of
/// other users are read, too, so that the limit holds for them.
pub(crate) fn result_sizes(size: &str) -> String {
    format!(
        "SELECT count(size), CAST(coalesce(sum(size), 0) AS BIGINT), count(*), coalesce(min(at_ms), 0) FROM \
        (SELECT at_ms, CASE WHEN $4 IS NULL OR user_name = $4 THEN {size} END AS size FROM audit \
        WHERE at_ms >= $1 AND at_ms < $2 AND kind = 'call' ORDER BY at_ms DESC LIMIT $3) AS newest"
    )
}

pub(crate) const AUDIT_LAST: &str = "SELECT seq, position, hash FROM audit ORDER BY seq DESC LIMIT 1";

pub(crate) const AUDIT_END: &str = "SELECT seq, position, hash FROM audit_ends WHERE name = $1";

pub(crate) const SET_AUDIT_END: &str = "\
    INSERT INTO audit_ends (name, seq, position, hash) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (name) DO UPDATE SET seq = excluded.seq, position = excluded.position, hash = excluded.hash";

pub(crate) const OLDEST_AUDIT: &str = "SELECT seq, position, hash, at_ms FROM audit ORDER BY seq LIMIT $1";

pub(crate) const PURGE_AUDIT: &str = "DELETE FROM audit WHERE seq <= $1";
