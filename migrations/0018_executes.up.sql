-- Executes are numbered as they are recorded, by the row of their session: it stays locked
-- to the end of the transaction, so whoever has seen a number has seen all below it. Those
-- from before, and from older programs, have 0 and are in the order of their ids.
ALTER TABLE sessions ADD COLUMN executed bigint NOT NULL DEFAULT 0;
ALTER TABLE executes ADD COLUMN seq bigint NOT NULL DEFAULT 0;
CREATE INDEX executes_in_order ON executes (session_id, seq, id);
