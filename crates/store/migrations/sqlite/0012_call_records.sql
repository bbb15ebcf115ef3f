-- Finds the record of a call, which is a row of the audit, by the id of the call.
CREATE INDEX audit_call ON audit (call_id) WHERE call_id IS NOT NULL;
