-- The text of an accepted definition, so that a change of it can be shown.
ALTER TABLE pins ADD COLUMN definition TEXT;

-- Tools that were let out of quarantine, each in one version.
CREATE TABLE releases (
    server      TEXT    NOT NULL,
    tool        TEXT    NOT NULL,
    digest      BLOB    NOT NULL CHECK (length(digest) = 32),
    released_ms INTEGER NOT NULL,
    released_by TEXT    NOT NULL,
    PRIMARY KEY (server, tool)
) STRICT, WITHOUT ROWID;
