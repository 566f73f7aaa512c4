-- The queue by priority before batch. A scheduler pass steps through the batches of a
-- tenant's priority, the oldest first, and reads no later ones. Like the index by batch, it
-- has only queued jobs. The negative sign keeps the planner from using it for statements
-- that look for a batch.
CREATE INDEX jobs_by_priority ON jobs (pool, tenant_id, (-priority), batch_id, lane, id) WHERE state = 'queued';
