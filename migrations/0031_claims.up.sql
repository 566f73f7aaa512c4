-- The end of a claim of an idempotency key, before which the claimant creates its job or batch. Null: it exists. A key that is
-- claimed in the statement that creates the job or batch has null from the start.
ALTER TABLE idempotency_keys ADD COLUMN held_until timestamptz;
