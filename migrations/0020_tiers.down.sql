DROP INDEX jobs_by_priority;
