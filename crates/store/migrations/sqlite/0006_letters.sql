-- Calls that were accepted and came to nothing. `sealed` holds the arguments, encrypted, until the letter is over.
CREATE TABLE dead_letters (
    seq               INTEGER NOT NULL PRIMARY KEY,
    id                TEXT    NOT NULL UNIQUE,
    call_id           TEXT    NOT NULL,
    user_name         TEXT    NOT NULL,
    persona           TEXT,
    session           TEXT,
    server            TEXT    NOT NULL,
    tool              TEXT    NOT NULL,
    exposed           TEXT    NOT NULL,
    provider          TEXT    NOT NULL,
    arguments_preview TEXT    NOT NULL,
    arguments_sha256  BLOB    NOT NULL CHECK (length(arguments_sha256) = 32),
    error_code        TEXT    NOT NULL,
    error_text        TEXT    NOT NULL,
    attempts          TEXT    NOT NULL,
    created_ms        INTEGER NOT NULL,
    next_retry_ms     INTEGER,
    state             TEXT    NOT NULL CHECK (state IN ('pending', 'retrying', 'resolved', 'dropped')),
    replaying         TEXT    NOT NULL CHECK (replaying IN ('automatic', 'by_hand')),
    may_have_happened INTEGER NOT NULL CHECK (may_have_happened IN (0, 1)),
    replays           INTEGER NOT NULL,
    ended_ms          INTEGER,
    sealed            TEXT,
    CHECK ((state IN ('resolved', 'dropped')) = (ended_ms IS NOT NULL)),
    CHECK (next_retry_ms IS NULL OR state = 'pending')
) STRICT;

CREATE INDEX dead_letters_open ON dead_letters (user_name) WHERE state IN ('pending', 'retrying');
CREATE INDEX dead_letters_due ON dead_letters (next_retry_ms) WHERE next_retry_ms IS NOT NULL;
CREATE INDEX dead_letters_user ON dead_letters (user_name, seq);
CREATE INDEX dead_letters_ended ON dead_letters (ended_ms) WHERE ended_ms IS NOT NULL;
