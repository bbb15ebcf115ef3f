-- Sessions of the console. The credential is sealed with a key that only the browser's cookie has.
CREATE TABLE console_sessions (
    digest     BYTEA  NOT NULL PRIMARY KEY,
    user_name  TEXT   COLLATE "C" NOT NULL,
    credential BYTEA  NOT NULL,
    until_ms   BIGINT NOT NULL,
    ends_ms    BIGINT NOT NULL
);

CREATE INDEX console_sessions_user ON console_sessions (user_name, until_ms);
CREATE INDEX console_sessions_until ON console_sessions (until_ms);
