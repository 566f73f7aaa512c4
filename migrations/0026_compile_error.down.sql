-- Rename outcomes that the previous release does not know to those that it would have used.
ALTER TABLE results DROP CONSTRAINT results_outcome;
UPDATE results SET outcome = 'failed' WHERE outcome = 'compile_error';
ALTER TABLE results ADD CONSTRAINT results_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
    'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost', 'check_error', 'setup_error'));
ALTER TABLE attempts DROP CONSTRAINT attempts_outcome;
UPDATE attempts SET outcome = 'failed' WHERE outcome = 'compile_error';
ALTER TABLE attempts ADD CONSTRAINT attempts_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
    'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost', 'check_error', 'setup_error'));
ALTER TABLE jobs DROP CONSTRAINT jobs_outcome;
UPDATE jobs SET outcome = 'failed' WHERE outcome = 'compile_error';
ALTER TABLE jobs ADD CONSTRAINT jobs_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
    'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost', 'check_error', 'setup_error'));

ALTER TABLE batch_counts DROP CONSTRAINT batch_counts_reconcile;
UPDATE batch_counts SET failed = failed + compile_error WHERE compile_error > 0;
ALTER TABLE batch_counts DROP COLUMN compile_error;
ALTER TABLE batch_counts ADD CONSTRAINT batch_counts_reconcile CHECK (recorded = succeeded + failed + exception + timed_out + out_of_memory
    + output_limit + disk_limit + process_limit + signaled + policy_violation + canceled + expired + lost + check_error + setup_error);
