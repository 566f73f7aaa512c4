-- The record of operators' actions. An action on rows and its record are one transaction.
CREATE TABLE operator_actions (
    id      uuid PRIMARY KEY, -- grows with time; lists page by it
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

-- A worker that an operator cordoned takes no jobs. Its heartbeats, and later processes of
-- its name, do not change these columns.
ALTER TABLE workers ADD COLUMN cordoned_at timestamptz;
ALTER TABLE workers ADD COLUMN cordoned_by text NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN cordon text NOT NULL DEFAULT ''; -- the reason

-- The time when the holder became the leader.
ALTER TABLE leaders ADD COLUMN since timestamptz NOT NULL DEFAULT now();
