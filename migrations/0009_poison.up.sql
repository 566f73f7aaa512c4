-- The number of times that a job was lost with its worker soon after its start, and no
-- other job there was more suspect.
ALTER TABLE jobs ADD COLUMN kills integer NOT NULL DEFAULT 0;
