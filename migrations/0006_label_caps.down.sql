DROP INDEX jobs_capped;
DROP INDEX jobs_queued;
CREATE INDEX jobs_queued ON jobs (pool, tenant_id, batch_id, priority, id) WHERE state = 'queued';
ALTER TABLE jobs DROP CONSTRAINT jobs_lane;
ALTER TABLE jobs DROP COLUMN lane;
ALTER TABLE jobs DROP COLUMN caps;
ALTER TABLE batches DROP COLUMN label_caps;
ALTER TABLE tenants DROP COLUMN label_caps;
