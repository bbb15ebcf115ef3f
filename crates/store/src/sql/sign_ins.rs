//! Statements on sign-ins.

pub(crate) const SAVE_SIGN_IN: &str = "\
    INSERT INTO sign_ins (user_name, issuer, groups, persona, level, until_ms) VALUES ($1, $2, $3, $4, $5, $6) \
    ON CONFLICT (user_name) DO UPDATE SET issuer = excluded.issuer, groups = excluded.groups, persona = excluded.persona, \
    level = excluded.level, until_ms = excluded.until_ms";

pub(crate) const TRIM_SIGN_INS: &str = "\
    DELETE FROM sign_ins WHERE user_name IN \
    (SELECT user_name FROM sign_ins ORDER BY until_ms DESC LIMIT 1000000000 OFFSET $1)";

pub(crate) const SIGN_IN: &str =
    "SELECT user_name, issuer, groups, persona, level, until_ms FROM sign_ins WHERE user_name = $1";

pub(crate) const PURGE_SIGN_INS: &str = "\
    DELETE FROM sign_ins WHERE user_name IN \
    (SELECT user_name FROM sign_ins WHERE until_ms < $1 LIMIT $2)";
