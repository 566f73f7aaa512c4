-- Who schedules and reaps for all dispatchers. The term counts the changes. Leading
-- only saves the others the work: every statement is safe beside itself.
CREATE TABLE leaders (
    role   text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    term   bigint NOT NULL,
    until  timestamptz NOT NULL
) WITH (fillfactor = 50);
