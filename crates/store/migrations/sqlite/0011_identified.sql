-- Held calls know what their caller was identified by, and questions that are answered in person. A check on a column
-- cannot be changed in place, so the table is rebuilt.
CREATE TABLE held_new (
    seq              INTEGER NOT NULL PRIMARY KEY,
    id               TEXT    NOT NULL UNIQUE,
    kind             TEXT    NOT NULL CHECK (kind IN ('approval', 'plan')),
    user_name        TEXT    NOT NULL,
    persona          TEXT,
    session          TEXT,
    level            TEXT,
    identified_by    TEXT,
    client           TEXT    NOT NULL,
    server           TEXT    NOT NULL,
    tool             TEXT    NOT NULL,
    exposed          TEXT    NOT NULL,
    digest           BLOB    NOT NULL CHECK (length(digest) = 32),
    arguments_sha256 BLOB    NOT NULL CHECK (length(arguments_sha256) = 32),
    answerer         TEXT    NOT NULL CHECK (answerer IN ('caller_or_approver', 'in_person', 'approver_only')),
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

INSERT INTO held_new (seq, id, kind, user_name, persona, session, client, server, tool, exposed, digest, arguments_sha256, answerer,
    created_ms, expires_ms, state, decided_by, decided_ms, remember, claimed_ms, outcome, ended_ms, error_code, plan, step,
    question, decision_note, arguments, edited, result)
SELECT seq, id, kind, user_name, persona, session, client, server, tool, exposed, digest, arguments_sha256, answerer,
    created_ms, expires_ms, state, decided_by, decided_ms, remember, claimed_ms, outcome, ended_ms, error_code, plan, step,
    question, decision_note, arguments, edited, result FROM held;

DROP TABLE held;
ALTER TABLE held_new RENAME TO held;


CREATE INDEX held_open ON held (user_name) WHERE state IN ('pending', 'approved');
CREATE INDEX held_expiry ON held (expires_ms) WHERE state = 'pending';
CREATE INDEX held_user ON held (user_name, seq);
CREATE INDEX held_arguments ON held (arguments_sha256, seq);
CREATE INDEX held_results ON held (seq) WHERE result IS NOT NULL;
CREATE UNIQUE INDEX held_steps ON held (plan, step) WHERE plan IS NOT NULL;

ALTER TABLE dead_letters ADD COLUMN level TEXT;
ALTER TABLE dead_letters ADD COLUMN identified_by TEXT;

-- What signed tokens said of users who were here, for calls that run when they are not.
CREATE TABLE sign_ins (
    user_name TEXT    NOT NULL PRIMARY KEY,
    issuer    TEXT    NOT NULL,
    groups    TEXT    NOT NULL,
    persona   TEXT,
    level     TEXT,
    until_ms  INTEGER NOT NULL
) STRICT;

CREATE INDEX sign_ins_until ON sign_ins (until_ms);
