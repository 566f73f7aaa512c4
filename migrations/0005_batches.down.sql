DROP INDEX jobs_repeatable;
ALTER TABLE jobs DROP COLUMN cache_key;
DROP TABLE batch_leases;
DROP TABLE callbacks;
ALTER TABLE batches DROP COLUMN retry_of;
