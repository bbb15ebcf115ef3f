-- Bearer tokens, by their hash.
CREATE TABLE tokens (
    seq        INTEGER NOT NULL PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    hash       BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    user_name  TEXT    NOT NULL,
    groups     TEXT    NOT NULL,
    persona    TEXT,
    note       TEXT,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER
) STRICT;
