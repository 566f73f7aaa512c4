-- A worker with unusually many failures of its own takes no jobs for a while, longer each
-- time. Its heartbeats do not change these columns.
ALTER TABLE workers ADD COLUMN quarantined_until timestamptz;
ALTER TABLE workers ADD COLUMN quarantines integer NOT NULL DEFAULT 0; -- consecutive
ALTER TABLE workers ADD COLUMN quarantine text NOT NULL DEFAULT ''; -- the reason
