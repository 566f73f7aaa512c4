-- The queue by priority before batch: a look of the scheduler steps over the batches of a
-- tenant's priority, the oldest first, and need not see those behind. Partial, as its
-- sister is: it has what is queued, and nothing else. The sign keeps
-- statements that look for a batch from taking it for its sister.
CREATE INDEX jobs_by_priority ON jobs (pool, tenant_id, (-priority), batch_id, lane, id) WHERE state = 'queued';
