-- Until when whoever claimed a key has it to make what the key is to name. Null: that is made, as it is of every key that
-- is claimed in the statement that makes it.
ALTER TABLE idempotency_keys ADD COLUMN held_until timestamptz;
