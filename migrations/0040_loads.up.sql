-- The work of a worker at its last heartbeat, as JSON; NULL: a dispatcher of an earlier release wrote the row.
ALTER TABLE workers ADD COLUMN load text;
-- Reports of dispatchers about themselves, and counts by the leader for the whole fleet. Each source has one row and replaces
-- it every few seconds, so that every dispatcher can show the figures of all others.
CREATE TABLE reports (
    source text COLLATE "C" PRIMARY KEY,
    at     timestamptz NOT NULL,
    body   text NOT NULL -- JSON
) WITH (fillfactor = 50);
