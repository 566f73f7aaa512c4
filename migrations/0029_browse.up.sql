-- The range of ids of a batch's jobs. It finds them without an index, which every change of a job's state would have to
-- update. The range is valid if spanned equals the number of appended jobs: other programs may have appended jobs without it.
ALTER TABLE batches ADD COLUMN first_job uuid;
ALTER TABLE batches ADD COLUMN last_job uuid;
ALTER TABLE batches ADD COLUMN spanned bigint NOT NULL DEFAULT 0;

-- The list of all tenants' batches.
CREATE INDEX batches_sealed ON batches (sealed_at, id) WHERE sealed_at IS NOT NULL;

-- Gaps that erased results left in the numbers of a batch: how many, and their sum.
ALTER TABLE batch_counts ADD COLUMN erased bigint NOT NULL DEFAULT 0;
ALTER TABLE batch_counts ADD COLUMN erased_numbers bigint NOT NULL DEFAULT 0;
