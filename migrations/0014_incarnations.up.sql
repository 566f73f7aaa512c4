-- A worker's name outlives its process: when the process started says which one of
-- them is meant. NULL in a lease: its worker did not say.
ALTER TABLE jobs ADD COLUMN worker_since timestamptz;
-- When a process took the name over from another one, and the last process that was
-- refused it because another one has it.
ALTER TABLE workers ADD COLUMN took_over_at timestamptz;
ALTER TABLE workers ADD COLUMN rival_since timestamptz;
ALTER TABLE workers ADD COLUMN rival_at timestamptz;

-- Why jobs.kills is what it is: a row for each lost lease that its job is blamed for.
-- It is taken back when its worker is heard of again, and after a while.
CREATE TABLE blames (
    job_id       uuid NOT NULL,
    lease        bigint NOT NULL,
    worker       text NOT NULL,
    worker_since timestamptz,
    blamed_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, lease)
);
