-- A worker whose own failures stand out takes no jobs for a while, longer each time.
-- Its heartbeats leave these alone.
ALTER TABLE workers ADD COLUMN quarantined_until timestamptz;
ALTER TABLE workers ADD COLUMN quarantines integer NOT NULL DEFAULT 0; -- in a row
ALTER TABLE workers ADD COLUMN quarantine text NOT NULL DEFAULT ''; -- why
