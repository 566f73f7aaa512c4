-- The waiting time of jobs of an open batch starts at its seal; until then, expires_at is far in the future. expiring: the batch
-- has such jobs, and their time has not started.
ALTER TABLE batches ADD COLUMN expiring boolean NOT NULL DEFAULT false;
CREATE INDEX batches_expiring ON batches (id) WHERE expiring AND sealed_at IS NOT NULL;
