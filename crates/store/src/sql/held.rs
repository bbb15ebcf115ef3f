//! Statements on held calls and plans.

/// The columns of a held call; `$result` is the expression for its result.
macro_rules! select_held {
    ($result:literal, $rest:literal) => {
        concat!(
            "SELECT id, kind, user_name, persona, session, level, identified_by, client, server, tool, exposed, digest, \
            arguments_sha256, answerer, created_ms, expires_ms, state, decided_by, decided_ms, remember, \
            claimed_ms, outcome, ended_ms, error_code, plan, step, call_id, call_step, question, decision_note, \
            arguments, edited, ",
            $result,
            " AS result FROM held",
            $rest
        )
    };
}

pub(crate) const HOLD: &str = "\
    INSERT INTO held (id, kind, user_name, persona, session, level, identified_by, client, server, tool, exposed, digest, \
    arguments_sha256, answerer, created_ms, expires_ms, state, plan, step, call_id, call_step, question, arguments) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)";

pub(crate) const HELD: &str = select_held!("result", " WHERE id = $1");

// The caller appends conditions, order and limit.
pub(crate) const HELD_CALLS: &str = select_held!("NULL", " WHERE true");

pub(crate) const OVERDUE: &str =
    select_held!("NULL", " WHERE state = 'pending' AND expires_ms <= $1 ORDER BY seq LIMIT $2");

// The caller appends the scope, order and limit.
pub(crate) const RUNNING: &str = select_held!(
    "NULL",
    " WHERE state IN ('pending', 'approved') AND state = 'approved' AND claimed_ms IS NOT NULL"
);

pub(crate) const CHANGE_HELD: &str = "\
    UPDATE held SET state = $2, decided_by = $3, decided_ms = $4, decision_note = $5, remember = $6, \
    claimed_ms = $7, outcome = $8, ended_ms = $9, error_code = $10, edited = $11, result = $12 WHERE id = $1";

pub(crate) const OPEN_HELD: &str = "\
    SELECT count(*), count(*) FILTER (WHERE user_name = $1) FROM held WHERE state IN ('pending', 'approved')";

pub(crate) const PURGE_OLD_HELD: &str = "\
    DELETE FROM held WHERE seq IN \
    (SELECT seq FROM held WHERE created_ms < $1 AND state NOT IN ('pending', 'approved') LIMIT $2)";

pub(crate) const PURGE_SURPLUS_HELD: &str = "\
    DELETE FROM held WHERE seq IN \
    (SELECT seq FROM held WHERE state NOT IN ('pending', 'approved') \
    AND seq <= (SELECT max(seq) FROM held) - $1 ORDER BY seq LIMIT $2)";

pub(crate) const PURGE_RESULTS: &str = "\
    UPDATE held SET result = NULL WHERE seq IN \
    (SELECT seq FROM held WHERE result IS NOT NULL \
    AND seq <= (SELECT max(seq) FROM held) - $1 ORDER BY seq LIMIT $2)";

pub(crate) const ADD_PLAN: &str = "\
    INSERT INTO plans (id, user_name, persona, session, state, created_ms, closed_ms) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

pub(crate) const PLAN: &str = "\
    SELECT id, user_name, persona, session, state, created_ms, closed_ms, steps FROM plans WHERE id = $1";

pub(crate) const OPEN_PLANS: &str = "\
    SELECT id, user_name, persona, session, state, created_ms, closed_ms, steps FROM plans \
    WHERE state = 'open' AND user_name = $1 ORDER BY seq DESC LIMIT $2";

pub(crate) const PLANS: &str = "\
    SELECT id, user_name, persona, session, state, created_ms, closed_ms, steps FROM plans \
    WHERE $1 IS NULL OR user_name = $1 ORDER BY seq DESC LIMIT $2";

pub(crate) const CLOSE_PLAN: &str = "UPDATE plans SET state = 'closed', closed_ms = $2 WHERE id = $1";

pub(crate) const COUNT_STEP: &str = "UPDATE plans SET steps = $2 WHERE id = $1";

pub(crate) const PURGE_PLANS: &str = "\
    DELETE FROM plans WHERE seq IN \
    (SELECT seq FROM plans WHERE closed_ms < $1 AND NOT EXISTS \
    (SELECT 1 FROM held WHERE held.plan = plans.id) LIMIT $2)";
