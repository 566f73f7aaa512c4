ALTER TABLE batch_counts DROP COLUMN erased_numbers;
ALTER TABLE batch_counts DROP COLUMN erased;
DROP INDEX batches_sealed;
ALTER TABLE batches DROP COLUMN spanned;
ALTER TABLE batches DROP COLUMN last_job;
ALTER TABLE batches DROP COLUMN first_job;
