-- One more outcome. The constraints do not validate existing rows: see 0024.
ALTER TABLE batch_counts ADD COLUMN compile_error bigint NOT NULL DEFAULT 0;
ALTER TABLE batch_counts DROP CONSTRAINT batch_counts_reconcile;
ALTER TABLE batch_counts ADD CONSTRAINT batch_counts_reconcile CHECK (recorded = succeeded + failed + exception + timed_out + out_of_memory
    + output_limit + disk_limit + process_limit + signaled + policy_violation + canceled + expired + lost + check_error + setup_error + compile_error) NOT VALID;

ALTER TABLE jobs DROP CONSTRAINT jobs_outcome;
ALTER TABLE jobs ADD CONSTRAINT jobs_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
    'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost', 'check_error', 'setup_error', 'compile_error')) NOT VALID;
ALTER TABLE attempts DROP CONSTRAINT attempts_outcome;
ALTER TABLE attempts ADD CONSTRAINT attempts_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
    'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost', 'check_error', 'setup_error', 'compile_error')) NOT VALID;
ALTER TABLE results DROP CONSTRAINT results_outcome;
ALTER TABLE results ADD CONSTRAINT results_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
    'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost', 'check_error', 'setup_error', 'compile_error')) NOT VALID;
