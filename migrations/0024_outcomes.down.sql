-- Rename outcomes that the previous release does not know to those that it would have used.
ALTER TABLE results DROP CONSTRAINT results_outcome;
UPDATE results SET outcome = CASE outcome WHEN 'check_error' THEN 'failed' ELSE 'policy_violation' END WHERE outcome IN ('check_error', 'setup_error');
ALTER TABLE results ADD CONSTRAINT results_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
    'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost'));
ALTER TABLE attempts DROP CONSTRAINT attempts_outcome;
UPDATE attempts SET outcome = CASE outcome WHEN 'check_error' THEN 'failed' ELSE 'policy_violation' END WHERE outcome IN ('check_error', 'setup_error');
ALTER TABLE attempts ADD CONSTRAINT attempts_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
    'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost'));
ALTER TABLE jobs DROP CONSTRAINT jobs_outcome;
UPDATE jobs SET outcome = CASE outcome WHEN 'check_error' THEN 'failed' ELSE 'policy_violation' END WHERE outcome IN ('check_error', 'setup_error');
ALTER TABLE jobs ADD CONSTRAINT jobs_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
    'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost'));

ALTER TABLE batch_counts DROP CONSTRAINT batch_counts_reconcile;
UPDATE batch_counts SET failed = failed + check_error, policy_violation = policy_violation + setup_error WHERE check_error + setup_error > 0;
ALTER TABLE batch_counts DROP COLUMN check_error;
ALTER TABLE batch_counts DROP COLUMN setup_error;
ALTER TABLE batch_counts ADD CONSTRAINT batch_counts_reconcile CHECK (recorded = succeeded + failed + exception + timed_out + out_of_memory
    + output_limit + disk_limit + process_limit + signaled + policy_violation + canceled + expired + lost);
