DROP INDEX callbacks_of;
DROP TRIGGER callbacks_made ON callbacks;
DROP FUNCTION assay_callback_made();
DROP TRIGGER batch_counts_empty ON batch_counts;
DROP TRIGGER batch_counts_ended ON batch_counts;
DROP FUNCTION assay_batch_ended();
ALTER TABLE callbacks DROP COLUMN ended_at;
