-- Jobs, their runs, and tasks: a JSON document with the columns that queries need.
CREATE TABLE work (
    seq        INTEGER NOT NULL PRIMARY KEY,
    kind       TEXT    NOT NULL CHECK (kind IN ('job', 'run', 'task')),
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

CREATE INDEX work_due ON work (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX work_user ON work (kind, user_name, seq);
CREATE INDEX work_parent ON work (parent, seq) WHERE parent IS NOT NULL;
