//! Statements on jobs, runs and tasks.

/// The columns of a row.
macro_rules! select_work {
    ($rest:literal) => {
        concat!(
            "SELECT kind, id, parent, user_name, name, state, due_ms, created_ms, updated_ms, body FROM work",
            $rest
        )
    };
}

pub(crate) const ADD_WORK: &str = "\
    INSERT INTO work (kind, id, parent, user_name, name, state, due_ms, created_ms, updated_ms, body) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

pub(crate) const CHANGE_WORK: &str = "\
    UPDATE work SET parent = $3, user_name = $4, name = $5, state = $6, due_ms = $7, created_ms = $8, \
    updated_ms = $9, body = $10 WHERE kind = $1 AND id = $2";

pub(crate) const REMOVE_WORK: &str = "DELETE FROM work WHERE kind = $1 AND id = $2";

pub(crate) const REMOVE_RUNS: &str = "DELETE FROM work WHERE kind = 'run' AND parent = $1";

pub(crate) const WORK: &str = select_work!(" WHERE kind = $1 AND id = $2");

// The caller appends conditions, order and limit.
pub(crate) const WORK_ROWS: &str = select_work!(" WHERE kind = ");

// The same with an empty document, for lists.
pub(crate) const WORK_HEADS: &str = "\
    SELECT kind, id, parent, user_name, name, state, due_ms, created_ms, updated_ms, '' AS body \
    FROM work WHERE kind = ";

pub(crate) const DUE_WORK: &str = select_work!(" WHERE due_ms <= $1 ORDER BY due_ms LIMIT $2");

pub(crate) const NEXT_WORK: &str = "SELECT min(due_ms) AS next_ms FROM work WHERE due_ms IS NOT NULL";

pub(crate) const WORK_OF_USER: &str = "SELECT count(*) FROM work WHERE kind = $1 AND user_name = $2";

pub(crate) const PURGE_ENDED_WORK: &str = "\
    DELETE FROM work WHERE seq IN (SELECT seq FROM work WHERE updated_ms < $1 AND due_ms IS NULL AND \
    ((kind = 'run' AND state IN ('succeeded', 'failed', 'cancelled', 'missed')) \
    OR (kind = 'task' AND state IN ('done', 'cancelled'))) LIMIT $2)";

pub(crate) const PURGE_SURPLUS_WORK: &str = "\
    DELETE FROM work WHERE seq IN (SELECT seq FROM work WHERE due_ms IS NULL AND \
    ((kind = 'run' AND state IN ('succeeded', 'failed', 'cancelled', 'missed')) \
    OR (kind = 'task' AND state IN ('done', 'cancelled'))) \
    AND seq <= (SELECT seq FROM work WHERE kind <> 'call_task' ORDER BY seq DESC LIMIT 1 OFFSET $1) \
    ORDER BY seq LIMIT $2)";

pub(crate) const PURGE_CALL_TASKS: &str = "\
    DELETE FROM work WHERE seq IN (SELECT seq FROM work WHERE kind = 'call_task' AND created_ms < $1 LIMIT $2)";
