-- Counters of a worker since its start, as JSON; NULL: it does not report them.
ALTER TABLE workers ADD COLUMN tally text;
