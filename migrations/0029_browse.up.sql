-- Between which ids the jobs of a batch are, so that they are found without an index of their own, which each change of
-- a job's state would pay for. It holds if as many jobs are spanned as were appended: others may have added some without.
ALTER TABLE batches ADD COLUMN first_job uuid;
ALTER TABLE batches ADD COLUMN last_job uuid;
ALTER TABLE batches ADD COLUMN spanned bigint NOT NULL DEFAULT 0;

-- The list of all tenants' batches.
CREATE INDEX batches_sealed ON batches (sealed_at, id) WHERE sealed_at IS NOT NULL;

-- Results that were erased left gaps in the numbers of a batch: how many, and their sum.
ALTER TABLE batch_counts ADD COLUMN erased bigint NOT NULL DEFAULT 0;
ALTER TABLE batch_counts ADD COLUMN erased_numbers bigint NOT NULL DEFAULT 0;
