-- The end of a callback's batch. An index on it finds due callbacks without reading all open ones. A trigger sets it for
-- every way in which a batch ends.
ALTER TABLE callbacks ADD COLUMN ended_at timestamptz;
UPDATE callbacks k SET ended_at = c.ended_at FROM batch_counts c WHERE c.batch_id = k.batch_id AND k.delivered_at IS NULL AND k.given_up_at IS NULL;
CREATE INDEX callbacks_due ON callbacks (tenant_id, next_at) WHERE delivered_at IS NULL AND given_up_at IS NULL AND ended_at IS NOT NULL;
CREATE INDEX callbacks_of ON callbacks (tenant_id) WHERE delivered_at IS NULL AND given_up_at IS NULL;
CREATE FUNCTION assay_batch_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE callbacks SET ended_at = NEW.ended_at WHERE batch_id = NEW.batch_id;
    RETURN NULL;
END $$;
CREATE TRIGGER batch_counts_ended AFTER UPDATE OF ended_at ON batch_counts
    FOR EACH ROW WHEN (OLD.ended_at IS DISTINCT FROM NEW.ended_at) EXECUTE FUNCTION assay_batch_ended();
CREATE FUNCTION assay_callback_made() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ended_at := (SELECT ended_at FROM batch_counts WHERE batch_id = NEW.batch_id);
    RETURN NEW;
END $$;
CREATE TRIGGER callbacks_made BEFORE INSERT ON callbacks FOR EACH ROW WHEN (NEW.ended_at IS NULL) EXECUTE FUNCTION assay_callback_made();
CREATE TRIGGER batch_counts_empty AFTER INSERT ON batch_counts
    FOR EACH ROW WHEN (NEW.ended_at IS NOT NULL) EXECUTE FUNCTION assay_batch_ended();
