-- Numbers that only grow: up to where the spool is in the audit, and the latest time of day that was seen.
CREATE TABLE marks (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
