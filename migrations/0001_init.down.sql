DROP FUNCTION assay_partitions(date, integer);
DROP FUNCTION assay_tune(text, text);
DROP TABLE workers, results, attempts, specs, jobs, batch_counts, batches, idempotency_keys, policies, tenants;
DROP SEQUENCE leases;
