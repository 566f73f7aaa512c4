-- What a worker has done since it started, as JSON; NULL: it does not say.
ALTER TABLE workers ADD COLUMN tally text;
