ALTER TABLE batches DROP COLUMN expiring;
