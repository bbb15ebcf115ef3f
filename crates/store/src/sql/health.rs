//! Statements on health windows.

pub(crate) const SAVE_HEALTH: &str = "\
    INSERT INTO health (subject, server, name, saved_ms, calls) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (subject, server, name) DO UPDATE SET saved_ms = excluded.saved_ms, calls = excluded.calls";

pub(crate) const HEALTH: &str =
    "SELECT subject, server, name, saved_ms, calls FROM health ORDER BY saved_ms DESC LIMIT $1";

pub(crate) const PURGE_HEALTH: &str = "\
    DELETE FROM health WHERE (subject, server, name) IN \
    (SELECT subject, server, name FROM health WHERE saved_ms < $1 LIMIT $2)";
