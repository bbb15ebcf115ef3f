//! Statements on tokens.

pub(crate) const ADD_TOKEN: &str = "\
    INSERT INTO tokens (id, hash, user_name, groups, persona, note, created_ms, expires_ms, revoked_ms) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

pub(crate) const TOKEN_COUNT: &str = "SELECT count(*) FROM tokens";

pub(crate) const TOKENS_LIKE: &str = "\
    SELECT id, hash, user_name, groups, persona, note, created_ms, expires_ms, revoked_ms \
    FROM tokens WHERE id = $1 OR hash = $2";

pub(crate) const TOKEN_BY_HASH: &str = "\
    SELECT id, hash, user_name, groups, persona, note, created_ms, expires_ms, revoked_ms \
    FROM tokens WHERE hash = $1";

pub(crate) const TOKEN_BY_ID: &str = "\
    SELECT id, hash, user_name, groups, persona, note, created_ms, expires_ms, revoked_ms \
    FROM tokens WHERE id = $1";

pub(crate) const TOKENS: &str = "\
    SELECT id, hash, user_name, groups, persona, note, created_ms, expires_ms, revoked_ms \
    FROM tokens ORDER BY seq";

pub(crate) const REVOKE_TOKEN: &str = "UPDATE tokens SET revoked_ms = $2 WHERE id = $1";

pub(crate) const PURGE_TOKENS: &str = "\
    DELETE FROM tokens WHERE seq IN \
    (SELECT seq FROM tokens WHERE revoked_ms < $1 OR expires_ms < $1 LIMIT $2)";
