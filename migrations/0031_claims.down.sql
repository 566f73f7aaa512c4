ALTER TABLE idempotency_keys DROP COLUMN held_until;
