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

pub(crate) const AUDIT_LAST: &str = "SELECT seq, position, hash FROM audit ORDER BY seq DESC LIMIT 1";

pub(crate) const AUDIT_END: &str = "SELECT seq, position, hash FROM audit_ends WHERE name = $1";

pub(crate) const SET_AUDIT_END: &str = "\
    INSERT INTO audit_ends (name, seq, position, hash) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (name) DO UPDATE SET seq = excluded.seq, position = excluded.position, hash = excluded.hash";

pub(crate) const OLDEST_AUDIT: &str = "SELECT seq, position, hash, at_ms FROM audit ORDER BY seq LIMIT $1";

pub(crate) const PURGE_AUDIT: &str = "DELETE FROM audit WHERE seq <= $1";
