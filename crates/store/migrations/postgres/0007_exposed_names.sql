-- The server that has an exposed name of a tool: the first one that claimed it.
CREATE TABLE exposed_names (
    name       TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    server     TEXT   COLLATE "C" NOT NULL,
    claimed_ms BIGINT NOT NULL
);

CREATE INDEX exposed_names_server ON exposed_names (server);
