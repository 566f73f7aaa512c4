-- The dispatcher that schedules and reaps for all. The term counts the changes of leader.
-- Two leaders at once do no harm, because every statement is safe to run concurrently.
CREATE TABLE leaders (
    role   text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    term   bigint NOT NULL,
    until  timestamptz NOT NULL
) WITH (fillfactor = 50);
