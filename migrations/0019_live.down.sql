DROP VIEW live_jobs, live_specs, live_attempts, live_results;
DROP FUNCTION assay_live_since();
DROP FUNCTION assay_live_since(uuid);
