//! SQL statements, in the dialect that SQLite and PostgreSQL share.

pub(crate) mod audit;
pub(crate) mod consents;
pub(crate) mod console_sessions;
pub(crate) mod discoveries;
pub(crate) mod exposed_names;
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod held;
pub(crate) mod jobs;
pub(crate) mod letters;
pub(crate) mod shared_records;
pub(crate) mod sign_ins;
pub(crate) mod tokens;

pub(crate) const WRITE_INTENT: &str = "\
    INSERT INTO calls (call_id, started_at_ms, user_name, server, tool, arguments_sha256, side_effect) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (call_id) DO NOTHING";

// Changes a row only if `records::outcome_write` returns `Write`.
pub(crate) const WRITE_OUTCOME: &str = "\
    UPDATE calls SET outcome = $2, ended_at_ms = $3, error_code = $4, duration_ms = $5 \
    WHERE call_id = $1 AND (outcome IS NULL OR (outcome = 'unknown' AND $2 <> 'unknown'))";

pub(crate) const CALL: &str = "\
    SELECT call_id, started_at_ms, user_name, server, tool, arguments_sha256, side_effect, \
    outcome, ended_at_ms, error_code, duration_ms FROM calls WHERE call_id = $1";

pub(crate) const OPEN_CALLS: &str = "\
    SELECT call_id, started_at_ms, user_name, server, tool, arguments_sha256, side_effect, \
    outcome, ended_at_ms, error_code, duration_ms FROM calls WHERE outcome IS NULL ORDER BY seq LIMIT $1";

pub(crate) const RECENT_CALLS: &str = "\
    SELECT call_id, started_at_ms, user_name, server, tool, arguments_sha256, side_effect, \
    outcome, ended_at_ms, error_code, duration_ms FROM calls ORDER BY seq DESC LIMIT $1";

// The caller appends the scope, order and limit.
pub(crate) const INTERRUPTED_CALLS: &str = "\
    SELECT call_id, started_at_ms, user_name, server, tool, arguments_sha256, side_effect, \
    outcome, ended_at_ms, error_code, duration_ms FROM calls WHERE outcome IS NULL";

// The caller appends the time, and then the calls that `INTERRUPTED_CALLS` finds with the same scope and limit.
pub(crate) const CLOSE_INTERRUPTED: &str =
    "UPDATE calls SET outcome = 'unknown', duration_ms = 0, ended_at_ms = ";

pub(crate) const FORGET_INTENT: &str = "DELETE FROM calls WHERE call_id = $1 AND outcome IS NULL";

pub(crate) const MARK: &str = "SELECT value FROM marks WHERE name = $1";

pub(crate) const RAISE_MARK: &str = "\
    INSERT INTO marks (name, value) VALUES ($1, $2) \
    ON CONFLICT (name) DO UPDATE SET value = \
    CASE WHEN excluded.value > marks.value THEN excluded.value ELSE marks.value END";

pub(crate) const RAISE_CLOCK: &str = "\
    INSERT INTO marks (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = \
    CASE WHEN marks.value - excluded.value > $3 OR excluded.value > marks.value THEN excluded.value \
    ELSE marks.value END";

pub(crate) const SECRETS: &str = "SELECT name, value FROM secrets";

pub(crate) const SET_SECRET: &str = "UPDATE secrets SET value = $2 WHERE name = $1";

pub(crate) const ADD_SECRET: &str =
    "INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";

pub(crate) const USE_NONCE: &str =
    "INSERT INTO nonces (nonce, expires_at_ms) VALUES ($1, $2) ON CONFLICT (nonce) DO NOTHING";

pub(crate) const PURGE_NONCES: &str = "\
    DELETE FROM nonces WHERE nonce IN \
    (SELECT nonce FROM nonces WHERE expires_at_ms <= $1 LIMIT $2)";

pub(crate) const PURGE_OLD_CALLS: &str = "\
    DELETE FROM calls WHERE seq IN \
    (SELECT seq FROM calls WHERE started_at_ms < $1 AND outcome IS NOT NULL LIMIT $2)";

// Counting rows would read the whole table. `seq` is consecutive, so its maximum serves as the count.
pub(crate) const PURGE_SURPLUS_CALLS: &str = "\
    DELETE FROM calls WHERE seq IN \
    (SELECT seq FROM calls WHERE outcome IS NOT NULL \
    AND seq <= (SELECT max(seq) FROM calls) - $1 ORDER BY seq LIMIT $2)";
