-- More properties of a batch: the batch that it repeats, the callback at its end, and the
-- lease of a client that waits for it.
ALTER TABLE batches ADD COLUMN retry_of uuid;

-- Callbacks of batches. A callback is due if its batch has ended and both delivered_at and
-- given_up_at are null.
CREATE TABLE callbacks (
    batch_id     uuid PRIMARY KEY REFERENCES batches ON DELETE CASCADE,
    delivery     uuid NOT NULL, -- the same in every attempt
    tenant_id    integer NOT NULL,
    url          text NOT NULL,
    secret       text NOT NULL DEFAULT '', -- name of the tenant's secret that signs; '': unsigned
    tries        integer NOT NULL DEFAULT 0, -- attempts begun; the fencing token of senders
    next_at      timestamptz NOT NULL DEFAULT now(), -- earliest time of the next attempt; during an attempt, the end of the sender's lease
    last_error   text NOT NULL DEFAULT '',
    delivered_at timestamptz,
    given_up_at  timestamptz,
    CONSTRAINT callbacks_one_end CHECK (delivered_at IS NULL OR given_up_at IS NULL)
) WITH (fillfactor = 70);
CREATE INDEX callbacks_open ON callbacks (batch_id) WHERE delivered_at IS NULL AND given_up_at IS NULL;

-- Leases of batches that their clients must renew. The table is separate from batches,
-- because until changes often. It has no index, so that each renewal is a HOT update.
CREATE TABLE batch_leases (
    batch_id uuid PRIMARY KEY REFERENCES batches ON DELETE CASCADE,
    ttl      bigint NOT NULL CHECK (ttl > 0), -- milliseconds
    until    timestamptz NOT NULL, -- infinity while the batch is open
    over_at  timestamptz, -- when the batch ended or the lease expired
    lapsed   boolean NOT NULL DEFAULT false,
    CONSTRAINT batch_leases_lapsed CHECK (NOT lapsed OR over_at IS NOT NULL)
) WITH (fillfactor = 50);
CREATE INDEX batch_leases_live ON batch_leases (batch_id) WHERE over_at IS NULL;

-- The fingerprint of a job that may reuse the record of an equal job; NULL: it may not.
-- The records are the cache, so retention also evicts entries.
ALTER TABLE jobs ADD COLUMN cache_key bytea;
CREATE INDEX jobs_repeatable ON jobs (tenant_id, cache_key, id)
    WHERE cache_key IS NOT NULL AND outcome IN ('succeeded', 'failed', 'exception');
