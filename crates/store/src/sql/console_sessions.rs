//! Statements on sessions of the console.

pub(crate) const ADD_SESSION: &str = "\
    INSERT INTO console_sessions (digest, user_name, credential, until_ms, ends_ms) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (digest) DO NOTHING";

// The statement that adds a session follows, so one place is left free.
pub(crate) const TRIM_SESSIONS_OF_USER: &str = "\
    DELETE FROM console_sessions WHERE digest IN \
    (SELECT digest FROM console_sessions WHERE user_name = $1 ORDER BY until_ms DESC LIMIT 1000000000 OFFSET $2)";

pub(crate) const TRIM_SESSIONS: &str = "\
    DELETE FROM console_sessions WHERE digest IN \
    (SELECT digest FROM console_sessions ORDER BY until_ms DESC LIMIT 1000000000 OFFSET $1)";

pub(crate) const SESSION: &str =
    "SELECT digest, user_name, credential, until_ms, ends_ms FROM console_sessions WHERE digest = $1";

pub(crate) const EXTEND_SESSION: &str = "UPDATE console_sessions SET until_ms = $2 WHERE digest = $1";

pub(crate) const REPLACE_CREDENTIAL: &str = "UPDATE console_sessions SET credential = $2 WHERE digest = $1";

pub(crate) const END_SESSION: &str = "DELETE FROM console_sessions WHERE digest = $1";

pub(crate) const PURGE_SESSIONS: &str = "\
    DELETE FROM console_sessions WHERE digest IN \
    (SELECT digest FROM console_sessions WHERE until_ms < $1 OR ends_ms < $1 LIMIT $2)";
