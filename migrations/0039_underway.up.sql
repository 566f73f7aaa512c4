-- Dispatched and running jobs by the time of their dispatch. A scheduler pass counts them from the oldest one on. It thereby
-- skips entries of finished jobs, which stay in an index while any transaction is open. The conditions keep the planner from
-- using these indexes for statements that look for a batch.
CREATE INDEX jobs_dispatched_at ON jobs (dispatched_at) WHERE upper(state) = 'DISPATCHED';
CREATE INDEX jobs_running_at ON jobs (dispatched_at) WHERE upper(state) = 'RUNNING';
