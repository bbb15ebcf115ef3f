//! Statements on files and their grants.

macro_rules! select_files {
    ($rest:literal) => {
        concat!(
            "SELECT id, user_name, session, name, version, mime, size_bytes, sha256, origin, call_id, \
            server, tool, viewer, created_ms, description FROM files",
            $rest
        )
    };
}

pub(crate) const ADD_FILE: &str = "\
    INSERT INTO files (id, user_name, session, name, version, mime, size_bytes, sha256, origin, call_id, \
    server, tool, viewer, created_ms, description) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";

pub(crate) const FILE: &str = select_files!(" WHERE id = $1");

// The session's own file comes before one that all sessions share.
pub(crate) const FILE_NAMED: &str = select_files!(
    " WHERE user_name = $1 AND name = $2 AND (session IS NULL OR session = $3) \
    ORDER BY session IS NULL, version DESC LIMIT 1"
);

pub(crate) const LAST_VERSION: &str = "\
    SELECT max(version) FROM files WHERE user_name = $1 AND name = $2 \
    AND coalesce(session, '') = coalesce($3, '')";

pub(crate) const USER_FILES: &str = "SELECT count(*) AS files, CAST(coalesce(sum(size_bytes), 0) AS BIGINT) AS bytes FROM files WHERE user_name = $1";

pub(crate) const FILES_BEFORE: &str = "SELECT id FROM files WHERE created_ms < $1 ORDER BY seq LIMIT $2";

// The caller appends conditions, order and limit.
pub(crate) const FILES: &str = select_files!(" WHERE true");

// The caller appends the ids.
pub(crate) const KNOWN_FILES: &str = "SELECT id FROM files WHERE id IN (";

pub(crate) const REMOVE_FILE: &str = "DELETE FROM files WHERE id = $1";

pub(crate) const OPEN_GRANT: &str = "\
    INSERT INTO file_grants (call_id, until_ms) VALUES ($1, $2) \
    ON CONFLICT (call_id) DO UPDATE SET until_ms = excluded.until_ms";

pub(crate) const END_GRANT: &str =
    "UPDATE file_grants SET until_ms = $2 WHERE call_id = $1 AND until_ms > $2";

// The caller appends the time and the conditions.
pub(crate) const END_GRANTS: &str = "UPDATE file_grants SET until_ms = ";

pub(crate) const GRANT: &str = "SELECT until_ms FROM file_grants WHERE call_id = $1";

pub(crate) const PURGE_GRANTS: &str = "\
    DELETE FROM file_grants WHERE call_id IN \
    (SELECT call_id FROM file_grants WHERE until_ms <= $1 LIMIT $2)";
