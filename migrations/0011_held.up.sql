-- Why a worker takes no jobs at the moment; empty: it does.
ALTER TABLE workers ADD COLUMN held text NOT NULL DEFAULT '';
