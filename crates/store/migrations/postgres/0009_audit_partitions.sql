-- The audit log in partitions by number, so that old rows are removed by dropping a table instead of deleting each of them.
-- The statements of earlier versions work on it as before. A partition `audit_to_N` has the rows up to N - 1.
ALTER TABLE audit RENAME TO audit_first;
ALTER INDEX audit_pkey RENAME TO audit_first_pkey;
ALTER INDEX audit_user RENAME TO audit_first_user;
ALTER INDEX audit_call RENAME TO audit_first_call;
ALTER INDEX audit_times RENAME TO audit_first_times;

CREATE TABLE audit (LIKE audit_first INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY RANGE (seq);
ALTER TABLE audit ADD CONSTRAINT audit_pkey PRIMARY KEY (seq);
CREATE INDEX audit_user ON audit (user_name, seq);
CREATE INDEX audit_call ON audit (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX audit_times ON audit (at_ms, kind, user_name, outcome);

-- The first partition has the rows that are there, and room for 20 to 40 million more.
DO $$
DECLARE
    last BIGINT := greatest(
        (SELECT coalesce(max(seq), 0) FROM audit_first), (SELECT coalesce(max(seq), 0) FROM audit_ends));
    upper_bound BIGINT := (last / 20000000 + 2) * 20000000;
BEGIN
    EXECUTE format('ALTER TABLE audit_first RENAME TO audit_to_%s', upper_bound);
    EXECUTE format('ALTER TABLE audit ATTACH PARTITION audit_to_%s FOR VALUES FROM (MINVALUE) TO (%s)',
        upper_bound, upper_bound);
END
$$;
