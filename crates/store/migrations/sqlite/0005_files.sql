-- Files of users: what is known of each. Their content is kept elsewhere, under the same id, and is there
-- before the row and until after it.
CREATE TABLE files (
    seq         INTEGER NOT NULL PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    user_name   TEXT    NOT NULL,
    session     TEXT    CHECK (session <> ''),
    name        TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    mime        TEXT    NOT NULL,
    size_bytes  INTEGER NOT NULL,
    sha256      BLOB    NOT NULL CHECK (length(sha256) = 32),
    origin      TEXT    NOT NULL CHECK (origin IN ('upload', 'artifact')),
    call_id     TEXT,
    server      TEXT,
    tool        TEXT,
    viewer      TEXT,
    created_ms  INTEGER NOT NULL,
    description TEXT,
    CHECK ((origin = 'artifact') = (call_id IS NOT NULL AND server IS NOT NULL AND tool IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX files_versions ON files (user_name, name, coalesce(session, ''), version);
CREATE INDEX files_user ON files (user_name, seq);

-- Calls that were given addresses of files, and until when those count.
CREATE TABLE file_grants (
    call_id  TEXT    NOT NULL PRIMARY KEY,
    until_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX file_grants_end ON file_grants (until_ms);
