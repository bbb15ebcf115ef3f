-- The same records as in PostgreSQL, where several gateways share them.
CREATE TABLE shared_records (
    kind       TEXT    NOT NULL CHECK (kind IN ('session', 'vault', 'lease')),
    name       TEXT    NOT NULL,
    user_name  TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    changed_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX shared_records_changed ON shared_records (kind, changed_ms) WHERE changed_ms > 0;
CREATE INDEX shared_records_expiry ON shared_records (expires_ms);
