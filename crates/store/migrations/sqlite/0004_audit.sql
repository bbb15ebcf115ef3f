-- What happened, each row bound to the one before it by its hash.
CREATE TABLE audit (
    seq               INTEGER NOT NULL PRIMARY KEY,
    at_ms             INTEGER NOT NULL,
    kind              TEXT    NOT NULL,
    call_id           BLOB,
    user_name         TEXT    NOT NULL,
    decided_by        TEXT,
    persona           TEXT,
    client            TEXT,
    server            TEXT,
    tool              TEXT,
    outcome           TEXT    NOT NULL,
    code              TEXT,
    duration_ms       INTEGER,
    arguments_sha256  BLOB,
    position          INTEGER NOT NULL,
    hash              BLOB    NOT NULL,
    arguments_preview TEXT,
    detail            TEXT
) STRICT;

CREATE INDEX audit_user ON audit (user_name, seq);

-- The two ends of the audit: the last row that was purged, and the last row that was written.
CREATE TABLE audit_ends (
    name     TEXT    NOT NULL PRIMARY KEY CHECK (name IN ('base', 'head')),
    seq      INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO audit_ends (name, seq, position, hash) VALUES ('base', 0, 0, zeroblob(32)), ('head', 0, 0, zeroblob(32));
