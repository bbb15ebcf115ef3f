-- Held calls know the call or the step of a run that they belong to, so that they are withdrawn with it.
ALTER TABLE held ADD COLUMN call_id TEXT COLLATE "C";
ALTER TABLE held ADD COLUMN call_step TEXT;

CREATE INDEX held_origin ON held (call_id) WHERE call_id IS NOT NULL;
