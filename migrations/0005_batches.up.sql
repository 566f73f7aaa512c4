-- What a batch is beyond its jobs: which one it repeats, whom to tell of its
-- end, and whether anybody still waits for it.
ALTER TABLE batches ADD COLUMN retry_of uuid;

-- Whom to tell when a batch is done. The row says what is left to do: a batch
-- that has ended with neither delivered_at nor given_up_at.
CREATE TABLE callbacks (
    batch_id     uuid PRIMARY KEY REFERENCES batches ON DELETE CASCADE,
    delivery     uuid NOT NULL, -- the same at every try
    tenant_id    integer NOT NULL,
    url          text NOT NULL,
    secret       text NOT NULL DEFAULT '', -- name of the tenant's secret that signs; '': unsigned
    tries        integer NOT NULL DEFAULT 0, -- begun; the fence between senders
    next_at      timestamptz NOT NULL DEFAULT now(), -- not before; while one is sending, the end of its lease
    last_error   text NOT NULL DEFAULT '',
    delivered_at timestamptz,
    given_up_at  timestamptz,
    CONSTRAINT callbacks_one_end CHECK (delivered_at IS NULL OR given_up_at IS NULL)
) WITH (fillfactor = 70);
CREATE INDEX callbacks_open ON callbacks (batch_id) WHERE delivered_at IS NULL AND given_up_at IS NULL;

-- Batches whose client has to say that it is still there. Apart from batches,
-- because until changes all the time; not indexed, so that it is a HOT update.
CREATE TABLE batch_leases (
    batch_id uuid PRIMARY KEY REFERENCES batches ON DELETE CASCADE,
    ttl      bigint NOT NULL CHECK (ttl > 0), -- milliseconds
    until    timestamptz NOT NULL, -- infinity while the batch is open
    over_at  timestamptz, -- the batch was done, or the lease lapsed
    lapsed   boolean NOT NULL DEFAULT false,
    CONSTRAINT batch_leases_lapsed CHECK (NOT lapsed OR over_at IS NOT NULL)
) WITH (fillfactor = 50);
CREATE INDEX batch_leases_live ON batch_leases (batch_id) WHERE over_at IS NULL;

-- The fingerprint of a job that may be answered with the record of an equal one;
-- NULL: it may not. The records are the cache: what retention drops, it forgets.
ALTER TABLE jobs ADD COLUMN cache_key bytea;
CREATE INDEX jobs_repeatable ON jobs (tenant_id, cache_key, id)
    WHERE cache_key IS NOT NULL AND outcome IN ('succeeded', 'failed', 'exception');
