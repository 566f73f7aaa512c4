-- Caps per value of a label: how many jobs with the same value of a label may be
-- dispatched or running at once. A limit is a JSON object, label → number; it is
-- read when jobs are scheduled, so it may change at any time.
ALTER TABLE tenants ADD COLUMN label_caps jsonb;
ALTER TABLE batches ADD COLUMN label_caps jsonb;

-- The caps that apply to a job: lines of scope (t: its tenant, b: its batch), label and
-- value, separated by tabs. Jobs with the same caps share a lane; jobs without caps are in
-- lane 0. The scheduler skips a full lane, however many jobs wait in it.
ALTER TABLE jobs ADD COLUMN caps text;
ALTER TABLE jobs ADD COLUMN lane integer NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD CONSTRAINT jobs_lane CHECK (lane >= 0 AND (lane > 0) = (caps IS NOT NULL));

DROP INDEX jobs_queued;
CREATE INDEX jobs_queued ON jobs (pool, tenant_id, batch_id, priority, lane, id) WHERE state = 'queued';
CREATE INDEX jobs_capped ON jobs (tenant_id) WHERE lane > 0 AND state IN ('dispatched', 'running');
