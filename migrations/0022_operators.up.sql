-- What operators do by hand, and the record of it. An action on rows and its record are
-- one transaction.
CREATE TABLE operator_actions (
    id      uuid PRIMARY KEY, -- grows with time: pages go by it
    at      timestamptz NOT NULL DEFAULT now(),
    actor   text NOT NULL,
    token   text NOT NULL DEFAULT '', -- the beginning of its hash
    action  text COLLATE "C" NOT NULL,
    subject text NOT NULL,
    reason  text NOT NULL DEFAULT '',
    detail  jsonb,
    outcome text NOT NULL CONSTRAINT operator_actions_outcome CHECK (outcome IN ('done', 'unchanged', 'failed'))
);
CREATE INDEX operator_actions_subject ON operator_actions (subject, id);

-- A worker that an operator has cordoned off takes no jobs. Its heartbeats, and processes of
-- its name that come after, leave these alone.
ALTER TABLE workers ADD COLUMN cordoned_at timestamptz;
ALTER TABLE workers ADD COLUMN cordoned_by text NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN cordon text NOT NULL DEFAULT ''; -- why

-- Since when the holder leads.
ALTER TABLE leaders ADD COLUMN since timestamptz NOT NULL DEFAULT now();
