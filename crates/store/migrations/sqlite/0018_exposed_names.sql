-- The server that has an exposed name of a tool: the first one that claimed it.
CREATE TABLE exposed_names (
    name       TEXT    NOT NULL PRIMARY KEY,
    server     TEXT    NOT NULL,
    claimed_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX exposed_names_server ON exposed_names (server);
