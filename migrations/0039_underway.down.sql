DROP INDEX jobs_running_at;
DROP INDEX jobs_dispatched_at;
