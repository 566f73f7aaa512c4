-- Several processes may have had a worker's name. The start time identifies one of them.
-- NULL in a lease: its worker did not report it.
ALTER TABLE jobs ADD COLUMN worker_since timestamptz;
-- The time when a process took over the name, and the last process that was refused the
-- name because another process has it.
ALTER TABLE workers ADD COLUMN took_over_at timestamptz;
ALTER TABLE workers ADD COLUMN rival_since timestamptz;
ALTER TABLE workers ADD COLUMN rival_at timestamptz;

-- The reasons for jobs.kills: a row for each lost lease that is blamed on its job. The row
-- is removed when the worker reports again, and after a while.
CREATE TABLE blames (
    job_id       uuid NOT NULL,
    lease        bigint NOT NULL,
    worker       text NOT NULL,
    worker_since timestamptz,
    blamed_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, lease)
);
