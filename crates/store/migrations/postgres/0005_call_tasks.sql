-- Calls that clients follow as MCP tasks are a further kind of work.
ALTER TABLE work DROP CONSTRAINT work_kind_check;
ALTER TABLE work ADD CONSTRAINT work_kind_check CHECK (kind IN ('job', 'run', 'task', 'call_task'));

CREATE INDEX work_call_tasks ON work (created_ms) WHERE kind = 'call_task';
