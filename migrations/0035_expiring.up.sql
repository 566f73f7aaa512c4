-- Jobs of an open batch may wait from its seal on: expires_at is far ahead until then. expiring: the batch has such jobs whose
-- time has not begun.
ALTER TABLE batches ADD COLUMN expiring boolean NOT NULL DEFAULT false;
CREATE INDEX batches_expiring ON batches (id) WHERE expiring AND sealed_at IS NOT NULL;
