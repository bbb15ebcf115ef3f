-- Applied files are compared by checksum when a database is opened: never edit one, add the next.
-- Times are milliseconds since 1970.

-- What was discovered on each server, so that a start need not ask again.
CREATE TABLE discoveries (
    server      TEXT    NOT NULL PRIMARY KEY,
    entry_hash  TEXT    NOT NULL,
    era         TEXT    NOT NULL,
    saved_at_ms INTEGER NOT NULL,
    payload     BLOB    NOT NULL
) STRICT;

-- The journal of calls with side effects: a row is an intent until its outcome is known.
CREATE TABLE calls (
    seq              INTEGER NOT NULL PRIMARY KEY,
    call_id          TEXT    NOT NULL UNIQUE,
    started_at_ms    INTEGER NOT NULL,
    user_name        TEXT    NOT NULL,
    server           TEXT    NOT NULL,
    tool             TEXT    NOT NULL,
    arguments_sha256 BLOB    NOT NULL CHECK (length(arguments_sha256) = 32),
    side_effect      TEXT    NOT NULL,
    outcome          TEXT    CHECK (outcome IN ('done', 'tool_error', 'failed', 'cancelled', 'timeout', 'unknown')),
    ended_at_ms      INTEGER,
    error_code       TEXT,
    duration_ms      INTEGER,
    CHECK ((outcome IS NULL) = (ended_at_ms IS NULL) AND (outcome IS NULL) = (duration_ms IS NULL))
) STRICT;

CREATE INDEX calls_open ON calls (seq) WHERE outcome IS NULL;
CREATE INDEX calls_started ON calls (started_at_ms);

-- Small secrets of the installation.
CREATE TABLE secrets (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT;

-- Sealed handles that were used up.
CREATE TABLE nonces (
    nonce         BLOB    NOT NULL PRIMARY KEY,
    expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX nonces_expiry ON nonces (expires_at_ms);
