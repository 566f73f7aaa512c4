-- How often a job was lost soon after its start, together with its worker, and
-- nothing else that ran there was more suspect.
ALTER TABLE jobs ADD COLUMN kills integer NOT NULL DEFAULT 0;
