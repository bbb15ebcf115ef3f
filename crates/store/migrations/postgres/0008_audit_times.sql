-- Finds the rows of a time range, and counts calls without reading the rows.
CREATE INDEX audit_times ON audit (at_ms, kind, user_name, outcome);
