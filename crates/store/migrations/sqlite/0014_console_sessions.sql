-- Sessions of the console. The credential is sealed with a key that only the browser's cookie has.
CREATE TABLE console_sessions (
    digest     BLOB    NOT NULL PRIMARY KEY,
    user_name  TEXT    NOT NULL,
    credential BLOB    NOT NULL,
    until_ms   INTEGER NOT NULL,
    ends_ms    INTEGER NOT NULL
) STRICT;

CREATE INDEX console_sessions_user ON console_sessions (user_name, until_ms);
CREATE INDEX console_sessions_until ON console_sessions (until_ms);
