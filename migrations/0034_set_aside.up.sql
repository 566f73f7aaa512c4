-- Results that a constraint, a trigger or a broken row refused. The job ends with the part of its record that could be
-- written. The rest is here until an operator records or drops it. body is not text, because invalid text may be the cause.
CREATE TABLE set_aside (
    id        uuid PRIMARY KEY, -- grows with time; lists page by it
    at        timestamptz NOT NULL DEFAULT now(),
    step      text COLLATE "C" NOT NULL,
    job_id    uuid NOT NULL,
    batch_id  uuid NOT NULL,
    tenant_id int NOT NULL,
    lease     bigint NOT NULL,
    worker    text NOT NULL DEFAULT '',
    outcome   text COLLATE "C" NOT NULL,
    body      bytea,
    message   text NOT NULL DEFAULT '',
    sqlstate  text COLLATE "C" NOT NULL,
    error     text NOT NULL,
    ended     text COLLATE "C" NOT NULL CONSTRAINT set_aside_ended CHECK (ended IN ('recorded', 'uncounted', 'counted', 'unrecorded', 'held')),
    seq       bigint NOT NULL DEFAULT 0,
    UNIQUE (job_id, lease)
);
CREATE INDEX set_aside_held ON set_aside (job_id) WHERE ended = 'held';
