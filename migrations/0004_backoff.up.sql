-- When a job that failed for reasons of ours may be tried again; NULL: at once.
-- It is set on the way back to the queue and not indexed: few rows wait at a time.
ALTER TABLE jobs ADD COLUMN not_before timestamptz;
