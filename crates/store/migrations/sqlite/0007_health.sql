-- How calls of tools, and through providers, ended lately: one window a row, written now and then.
CREATE TABLE health (
    subject  TEXT    NOT NULL CHECK (subject IN ('tool', 'provider')),
    server   TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    saved_ms INTEGER NOT NULL,
    calls    TEXT    NOT NULL,
    PRIMARY KEY (subject, server, name)
) STRICT, WITHOUT ROWID;
