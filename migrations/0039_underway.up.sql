-- Jobs that are dispatched and that are running, by the time of their dispatch. A look of the scheduler counts them from the
-- oldest one on. It leaves out the entries of jobs that are over, which stay in an index while any transaction
-- is open. The conditions keep statements that look for a batch from taking these for their sisters.
CREATE INDEX jobs_dispatched_at ON jobs (dispatched_at) WHERE upper(state) = 'DISPATCHED';
CREATE INDEX jobs_running_at ON jobs (dispatched_at) WHERE upper(state) = 'RUNNING';
