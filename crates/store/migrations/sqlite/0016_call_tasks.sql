-- Calls that clients follow as MCP tasks are a further kind of work. SQLite cannot change a check, so the table is
-- written again.
CREATE TABLE work_next (
    seq        INTEGER NOT NULL PRIMARY KEY,
    kind       TEXT    NOT NULL CHECK (kind IN ('job', 'run', 'task', 'call_task')),
    id         TEXT    NOT NULL,
    parent     TEXT,
    user_name  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    due_ms     INTEGER,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    UNIQUE (kind, id)
) STRICT;

INSERT INTO work_next (seq, kind, id, parent, user_name, name, state, due_ms, created_ms, updated_ms, body)
    SELECT seq, kind, id, parent, user_name, name, state, due_ms, created_ms, updated_ms, body FROM work;
DROP TABLE work;
ALTER TABLE work_next RENAME TO work;

CREATE INDEX work_due ON work (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX work_user ON work (kind, user_name, seq);
CREATE INDEX work_parent ON work (parent, seq) WHERE parent IS NOT NULL;
CREATE INDEX work_call_tasks ON work (created_ms) WHERE kind = 'call_task';
