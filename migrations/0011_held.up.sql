-- The reason why a worker takes no jobs now; empty: it takes jobs.
ALTER TABLE workers ADD COLUMN held text NOT NULL DEFAULT '';
