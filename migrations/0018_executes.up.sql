-- Executions get numbers when they are recorded, from the row of their session. The row
-- stays locked until the transaction ends, so a reader that sees a number has seen all
-- lower ones. Older executions have 0 and are ordered by id.
ALTER TABLE sessions ADD COLUMN executed bigint NOT NULL DEFAULT 0;
ALTER TABLE executes ADD COLUMN seq bigint NOT NULL DEFAULT 0;
CREATE INDEX executes_in_order ON executes (session_id, seq, id);
