-- Batches by the time of their seal, which is the order of lists. A reader that has read
-- the newest batch has read all earlier ones, however long an upload took. Programs of the
-- previous version list by the index on id.
CREATE INDEX batches_by_seal ON batches (tenant_id, sealed_at, id) WHERE sealed_at IS NOT NULL;
