//! Statements on dead letters.

/// The columns of a letter; `$sealed` is the expression for its sealed arguments.
macro_rules! select_letters {
    ($sealed:literal, $rest:literal) => {
        concat!(
            "SELECT id, call_id, user_name, persona, session, level, identified_by, server, tool, exposed, provider, \
            arguments_preview, arguments_sha256, error_code, error_text, attempts, created_ms, next_retry_ms, \
            state, replaying, may_have_happened, replays, ended_ms, ",
            $sealed,
            " AS sealed FROM dead_letters",
            $rest
        )
    };
}

pub(crate) const ADD_LETTER: &str = "\
    INSERT INTO dead_letters (id, call_id, user_name, persona, session, level, identified_by, server, tool, exposed, provider, \
    arguments_preview, arguments_sha256, error_code, error_text, attempts, created_ms, next_retry_ms, state, \
    replaying, may_have_happened, replays, sealed) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)";

pub(crate) const LETTER: &str = select_letters!("sealed", " WHERE id = $1");

// The caller appends conditions, order and limit.
pub(crate) const LETTERS: &str = select_letters!("NULL", " WHERE true");

pub(crate) const DUE_LETTERS: &str =
    select_letters!("sealed", " WHERE next_retry_ms <= $1 ORDER BY next_retry_ms LIMIT $2");

pub(crate) const NEXT_LETTER: &str =
    "SELECT min(next_retry_ms) AS next_ms FROM dead_letters WHERE next_retry_ms IS NOT NULL";

// The caller appends the scope, order and limit.
pub(crate) const RETRYING_LETTERS: &str = select_letters!("sealed", " WHERE state = 'retrying'");

pub(crate) const OPEN_LETTERS: &str = "\
    SELECT count(*), count(*) FILTER (WHERE user_name = $1) FROM dead_letters \
    WHERE state IN ('pending', 'retrying')";

pub(crate) const CHANGE_LETTER: &str = "\
    UPDATE dead_letters SET provider = $2, error_code = $3, error_text = $4, attempts = $5, next_retry_ms = $6, \
    state = $7, may_have_happened = $8, replays = $9, ended_ms = $10, sealed = $11 WHERE id = $1";

pub(crate) const PURGE_ENDED_LETTERS: &str = "\
    DELETE FROM dead_letters WHERE seq IN (SELECT seq FROM dead_letters WHERE ended_ms < $1 LIMIT $2)";

pub(crate) const PURGE_OPEN_LETTERS: &str = "\
    DELETE FROM dead_letters WHERE seq IN \
    (SELECT seq FROM dead_letters WHERE state = 'pending' AND created_ms < $1 LIMIT $2)";

pub(crate) const PURGE_SURPLUS_LETTERS: &str = "\
    DELETE FROM dead_letters WHERE seq IN \
    (SELECT seq FROM dead_letters WHERE ended_ms IS NOT NULL \
    AND seq <= (SELECT max(seq) FROM dead_letters) - $1 ORDER BY seq LIMIT $2)";
