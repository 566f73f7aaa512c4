-- Batches by when they were accepted whole: that is their order in a list, since whoever
-- has read the newest has then read all before it, however long an upload took. The one
-- by id is what programs of the last version list by.
CREATE INDEX batches_by_seal ON batches (tenant_id, sealed_at, id) WHERE sealed_at IS NOT NULL;
