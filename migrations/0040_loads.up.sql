-- The work of a worker at its last heartbeat, as JSON; NULL: a dispatcher of an earlier release wrote the row.
ALTER TABLE workers ADD COLUMN load text;
-- Reports of dispatchers about themselves, and counts that the leader makes for all of them. One row for each source,
-- replaced every few seconds: what one dispatcher measures, every other one can show.
CREATE TABLE reports (
    source text COLLATE "C" PRIMARY KEY,
    at     timestamptz NOT NULL,
    body   text NOT NULL -- JSON
) WITH (fillfactor = 50);
