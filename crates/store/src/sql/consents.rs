//! Statements on consents, pins and releases.

pub(crate) const ADD_CONSENT: &str = "\
    INSERT INTO consents (id, user_name, server, tool, digest, session, granted_by, created_ms, expires_ms) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

pub(crate) const CONSENT: &str = "\
    SELECT id, user_name, server, tool, digest, session, granted_by, created_ms, expires_ms \
    FROM consents WHERE id = $1";

pub(crate) const CONSENTS_ON: &str = "\
    SELECT id, user_name, server, tool, digest, session, granted_by, created_ms, expires_ms \
    FROM consents WHERE user_name = $1 AND server = $2 AND tool = $3 AND digest = $4 \
    AND (session IS NULL OR session = $5) AND (expires_ms IS NULL OR expires_ms > $6) \
    ORDER BY seq DESC LIMIT 1";

pub(crate) const CONSENTS: &str = "\
    SELECT id, user_name, server, tool, digest, session, granted_by, created_ms, expires_ms \
    FROM consents WHERE $1 IS NULL OR user_name = $1 ORDER BY seq DESC LIMIT $2";

// A newer consent replaces an older one with the same scope.
pub(crate) const REPLACE_CONSENT: &str = "\
    DELETE FROM consents WHERE user_name = $1 AND server = $2 AND tool = $3 \
    AND coalesce(session, '') = coalesce($4, '')";

pub(crate) const USER_CONSENTS: &str = "SELECT count(*) FROM consents WHERE user_name = $1";

pub(crate) const REVOKE_CONSENT: &str = "DELETE FROM consents WHERE id = $1";

pub(crate) const PURGE_CONSENTS: &str = "\
    DELETE FROM consents WHERE seq IN (SELECT seq FROM consents WHERE expires_ms <= $1 LIMIT $2)";

// Without the texts, which can be large; `PIN` reads one with its text.
pub(crate) const PINS: &str = "\
    SELECT server, tool, digest, pinned_ms, pinned_by, NULL AS definition FROM pins \
    ORDER BY server, tool LIMIT $1";

pub(crate) const PIN: &str = "\
    SELECT server, tool, digest, pinned_ms, pinned_by, definition FROM pins WHERE server = $1 AND tool = $2";

pub(crate) const PIN_COUNT: &str = "SELECT count(*) FROM pins";

pub(crate) const SAVE_PIN: &str = "\
    INSERT INTO pins (server, tool, digest, pinned_ms, pinned_by, definition) VALUES ($1, $2, $3, $4, $5, $6) \
    ON CONFLICT (server, tool) DO UPDATE SET digest = excluded.digest, pinned_ms = excluded.pinned_ms, \
    pinned_by = excluded.pinned_by, definition = excluded.definition";

pub(crate) const FORGET_PINS: &str = "DELETE FROM pins WHERE server = $1";

pub(crate) const RELEASES: &str = "\
    SELECT server, tool, digest, released_ms, released_by FROM releases ORDER BY server, tool LIMIT $1";

pub(crate) const RELEASE_COUNT: &str = "SELECT count(*) FROM releases WHERE NOT (server = $1 AND tool = $2)";

pub(crate) const SAVE_RELEASE: &str = "\
    INSERT INTO releases (server, tool, digest, released_ms, released_by) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (server, tool) DO UPDATE SET digest = excluded.digest, released_ms = excluded.released_ms, \
    released_by = excluded.released_by";
