-- Between which ids the jobs of a batch are, so that they are found without an index of their own, which each change of
-- a job's state would pay for. It holds if as many jobs are spanned as were appended: others may have added some without.
ALTER TABLE batches ADD COLUMN first_job uuid;
ALTER TABLE batches ADD COLUMN last_job uuid;
ALTER TABLE batches ADD COLUMN spanned bigint NOT NULL DEFAULT 0;

-- The list of all tenants' batches.
CREATE INDEX batches_sealed ON batches (sealed_at, id) WHERE sealed_at IS NOT NULL;
