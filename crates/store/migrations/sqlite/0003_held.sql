-- Calls that wait for a person. The long columns stand last, so that lists need not read past them.
CREATE TABLE held (
    seq              INTEGER NOT NULL PRIMARY KEY,
    id               TEXT    NOT NULL UNIQUE,
    kind             TEXT    NOT NULL CHECK (kind IN ('approval', 'plan')),
    user_name        TEXT    NOT NULL,
    persona          TEXT,
    session          TEXT,
    client           TEXT    NOT NULL,
    server           TEXT    NOT NULL,
    tool             TEXT    NOT NULL,
    exposed          TEXT    NOT NULL,
    digest           BLOB    NOT NULL CHECK (length(digest) = 32),
    arguments_sha256 BLOB    NOT NULL CHECK (length(arguments_sha256) = 32),
    answerer         TEXT    NOT NULL CHECK (answerer IN ('caller_or_approver', 'approver_only')),
    created_ms       INTEGER NOT NULL,
    expires_ms       INTEGER,
    state            TEXT    NOT NULL
                     CHECK (state IN ('pending', 'approved', 'rejected', 'expired', 'done', 'failed')),
    decided_by       TEXT,
    decided_ms       INTEGER,
    remember         TEXT    CHECK (remember IN ('once', 'session', 'always')),
    claimed_ms       INTEGER,
    outcome          TEXT    CHECK (outcome IN ('done', 'tool_error', 'failed', 'cancelled', 'timeout', 'unknown')),
    ended_ms         INTEGER,
    error_code       TEXT,
    plan             TEXT,
    step             INTEGER,
    question         TEXT    NOT NULL,
    decision_note    TEXT,
    arguments        TEXT    NOT NULL,
    edited           TEXT,
    result           TEXT,
    CHECK ((outcome IS NULL) = (ended_ms IS NULL)),
    CHECK ((plan IS NULL) = (step IS NULL))
) STRICT;

CREATE INDEX held_open ON held (user_name) WHERE state IN ('pending', 'approved');
CREATE INDEX held_expiry ON held (expires_ms) WHERE state = 'pending';
CREATE INDEX held_user ON held (user_name, seq);
CREATE INDEX held_arguments ON held (arguments_sha256, seq);
CREATE INDEX held_results ON held (seq) WHERE result IS NOT NULL;
CREATE UNIQUE INDEX held_steps ON held (plan, step) WHERE plan IS NOT NULL;

-- Plans, and how many steps each has handed out.
CREATE TABLE plans (
    seq        INTEGER NOT NULL PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    user_name  TEXT    NOT NULL,
    persona    TEXT,
    session    TEXT,
    state      TEXT    NOT NULL CHECK (state IN ('open', 'closed')),
    created_ms INTEGER NOT NULL,
    closed_ms  INTEGER,
    steps      INTEGER NOT NULL DEFAULT 0,
    CHECK ((state = 'closed') = (closed_ms IS NOT NULL))
) STRICT;

CREATE INDEX plans_open ON plans (user_name) WHERE state = 'open';
CREATE INDEX plans_user ON plans (user_name, seq);

-- Approvals that are remembered.
CREATE TABLE consents (
    seq        INTEGER NOT NULL PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    user_name  TEXT    NOT NULL,
    server     TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    digest     BLOB    NOT NULL CHECK (length(digest) = 32),
    session    TEXT,
    granted_by TEXT    NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER
) STRICT;

CREATE INDEX consents_scope ON consents (user_name, server, tool);
CREATE INDEX consents_expiry ON consents (expires_ms) WHERE expires_ms IS NOT NULL;

-- Definitions of tools that somebody has accepted.
CREATE TABLE pins (
    server    TEXT    NOT NULL,
    tool      TEXT    NOT NULL,
    digest    BLOB    NOT NULL CHECK (length(digest) = 32),
    pinned_ms INTEGER NOT NULL,
    pinned_by TEXT    NOT NULL,
    PRIMARY KEY (server, tool)
) STRICT, WITHOUT ROWID;
