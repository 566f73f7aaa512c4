-- The system of record. docs/adr/0002 argues for the partitions; pkg/store/postgres
-- holds every statement that touches these tables.
--
-- Rules that the shape follows:
--   * jobs, specs, attempts and results are partitioned by the job's id, a UUIDv7, so that
--     a day of history is dropped rather than deleted, and the primary key still
--     holds in every partition.
--   * No foreign keys on the hot tables: each would cost an index lookup and a row
--     lock per row, and the guarded statements already say what they rely on.
--   * Partial indexes on live rows only, and never on a column that changes while a
--     job is in one state, so that heartbeats and republishing are HOT updates.
--   * Documents (specs, results) are text: they are written once and handed out
--     whole; jsonb would parse and rebuild them on both ways.

CREATE TABLE tenants (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text COLLATE "C" NOT NULL UNIQUE,
    weight      double precision NOT NULL DEFAULT 1 CHECK (weight > 0),
    max_running integer CHECK (max_running > 0),
    ceiling     text,
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE policies (
    tenant_id  integer NOT NULL REFERENCES tenants,
    name       text COLLATE "C" NOT NULL,
    version    integer NOT NULL CHECK (version > 0),
    policy     text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name, version)
);

-- The batch or job that a request with an Idempotency-Key created.
CREATE TABLE idempotency_keys (
    tenant_id  integer NOT NULL,
    key        text COLLATE "C" NOT NULL,
    hash       text NOT NULL,
    made       uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

CREATE TABLE batches (
    id               uuid PRIMARY KEY,
    tenant_id        integer NOT NULL,
    name             text NOT NULL DEFAULT '',
    labels           text,
    traceparent      text NOT NULL DEFAULT '',
    created_at       timestamptz NOT NULL DEFAULT now(),
    appended_at      timestamptz NOT NULL DEFAULT now(), -- open batches expire if nothing is appended
    appended         bigint NOT NULL DEFAULT 0,
    sealed_at        timestamptz,
    dropped_at       timestamptz,
    cancel_requested boolean NOT NULL DEFAULT false,
    CONSTRAINT batches_sealed_or_dropped CHECK (sealed_at IS NULL OR dropped_at IS NULL)
);
CREATE INDEX batches_by_tenant ON batches (tenant_id, id) WHERE sealed_at IS NOT NULL;
CREATE INDEX batches_open ON batches (id) WHERE sealed_at IS NULL;

-- The counters of a batch, apart from it because they change with every bulk of
-- results: the row stays narrow and every update HOT. recorded numbers the results
-- of the batch without a gap.
CREATE TABLE batch_counts (
    batch_id         uuid PRIMARY KEY,
    total            bigint NOT NULL,
    recorded         bigint NOT NULL DEFAULT 0,
    succeeded        bigint NOT NULL DEFAULT 0,
    failed           bigint NOT NULL DEFAULT 0,
    exception        bigint NOT NULL DEFAULT 0,
    timed_out        bigint NOT NULL DEFAULT 0,
    out_of_memory    bigint NOT NULL DEFAULT 0,
    output_limit     bigint NOT NULL DEFAULT 0,
    disk_limit       bigint NOT NULL DEFAULT 0,
    process_limit    bigint NOT NULL DEFAULT 0,
    signaled         bigint NOT NULL DEFAULT 0,
    policy_violation bigint NOT NULL DEFAULT 0,
    canceled         bigint NOT NULL DEFAULT 0,
    expired          bigint NOT NULL DEFAULT 0,
    lost             bigint NOT NULL DEFAULT 0,
    ended_at         timestamptz,
    CONSTRAINT batch_counts_reconcile CHECK (recorded = succeeded + failed + exception + timed_out + out_of_memory
        + output_limit + disk_limit + process_limit + signaled + policy_violation + canceled + expired + lost),
    CONSTRAINT batch_counts_bounded CHECK (recorded <= total),
    CONSTRAINT batch_counts_ended CHECK ((recorded = total) = (ended_at IS NOT NULL))
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX batch_counts_live ON batch_counts (batch_id) WHERE ended_at IS NULL;

-- Lease numbers only grow. Every claim commits synchronously before its response is
-- sent, so a number that a worker received is never issued again, even after a crash.
CREATE SEQUENCE leases AS bigint;

CREATE TABLE jobs (
    id               uuid NOT NULL,
    batch_id         uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000', -- nil: no batch
    tenant_id        integer NOT NULL,
    priority         integer NOT NULL DEFAULT 0,
    dispatch_gen     integer NOT NULL DEFAULT 0,
    lease            bigint NOT NULL DEFAULT 0, -- the last one issued; current while running
    tries            integer NOT NULL DEFAULT 0, -- attempts charged to the user
    max_attempts     integer NOT NULL DEFAULT 1 CHECK (max_attempts > 0),
    losses           integer NOT NULL DEFAULT 0, -- attempts charged to infrastructure
    earlier          integer NOT NULL DEFAULT 0, -- rows in attempts
    cancel_requested boolean NOT NULL DEFAULT false,
    created_at       timestamptz NOT NULL DEFAULT now(),
    expires_at       timestamptz,
    dispatched_at    timestamptz,
    published_at     timestamptz, -- last handed out for publishing
    started_at       timestamptz,
    lease_until      timestamptz,
    ended_at         timestamptz,
    pool             text COLLATE "C" NOT NULL,
    state            text COLLATE "C" NOT NULL DEFAULT 'queued',
    outcome          text COLLATE "C",
    worker           text, -- of the last lease
    retry_on         text, -- outcomes, separated by commas
    traceparent      text,
    identity         text NOT NULL DEFAULT '', -- JSON members that the result repeats: name, labels, trace_id
    PRIMARY KEY (id),
    CONSTRAINT jobs_state CHECK (state IN ('queued', 'dispatched', 'running', 'finished', 'canceled')),
    CONSTRAINT jobs_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
        'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost')),
    CONSTRAINT jobs_dispatched CHECK (state <> 'dispatched'
        OR (dispatch_gen > 0 AND dispatched_at IS NOT NULL AND published_at IS NOT NULL)),
    CONSTRAINT jobs_running CHECK ((state = 'running') = (lease_until IS NOT NULL)
        AND (state <> 'running' OR (lease > 0 AND worker IS NOT NULL AND started_at IS NOT NULL))),
    CONSTRAINT jobs_ended CHECK ((state IN ('finished', 'canceled')) = (ended_at IS NOT NULL)
        AND (ended_at IS NULL) = (outcome IS NULL)
        AND (state = 'canceled') = (outcome IS NOT DISTINCT FROM 'canceled'))
) PARTITION BY RANGE (id);
-- The queue. The scheduler steps through its prefixes: pool, tenant, batch, priority.
CREATE INDEX jobs_queued ON jobs (pool, tenant_id, batch_id, priority, id) WHERE state = 'queued';
CREATE INDEX jobs_dispatched ON jobs (tenant_id, batch_id) WHERE state = 'dispatched';
-- Lease ends are not indexed: running rows are few, heartbeats are many.
CREATE INDEX jobs_running ON jobs (tenant_id, batch_id) WHERE state = 'running';
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE expires_at IS NOT NULL AND state IN ('queued', 'dispatched');

-- The spec of a job. It never changes, so it has a table of its own: each of the three
-- or four updates in a job's life would copy it.
CREATE TABLE specs (
    id   uuid NOT NULL,
    spec text NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);

-- Attempts that did not become the record. The results table has the recorded attempt.
CREATE TABLE attempts (
    job_id     uuid NOT NULL,
    lease      bigint NOT NULL CHECK (lease > 0),
    worker     text NOT NULL,
    outcome    text COLLATE "C",
    reason     text COLLATE "C" NOT NULL DEFAULT '',
    message    text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL DEFAULT now(),
    body       text, -- the worker's result, if any
    PRIMARY KEY (job_id, lease),
    CONSTRAINT attempts_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
        'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost')),
    CONSTRAINT attempts_reason CHECK (reason IN ('', 'lost', 'drained', 'preempted', 'infra')),
    CONSTRAINT attempts_why CHECK ((outcome IS NULL) = (reason <> ''))
) PARTITION BY RANGE (job_id);

CREATE TABLE results (
    id          uuid NOT NULL, -- of the job
    batch_id    uuid NOT NULL,
    seq         bigint NOT NULL, -- position in the batch, from 1 without a gap; 0 without a batch
    lease       bigint NOT NULL, -- of the recorded attempt; 0 if the job never ran
    tenant_id   integer NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    outcome     text COLLATE "C" NOT NULL,
    reason      text COLLATE "C" NOT NULL DEFAULT '',
    worker      text,
    identity    text NOT NULL,
    attempts    text, -- earlier attempts, JSON objects separated by commas
    body        text NOT NULL, -- the rest of the JSON object
    PRIMARY KEY (id),
    CONSTRAINT results_outcome CHECK (outcome IN ('succeeded', 'failed', 'exception', 'timed_out', 'out_of_memory',
        'output_limit', 'disk_limit', 'process_limit', 'signaled', 'policy_violation', 'canceled', 'expired', 'lost')),
    CONSTRAINT results_reason CHECK (reason IN ('', 'lost', 'drained', 'preempted', 'infra'))
) PARTITION BY RANGE (id);
CREATE INDEX results_by_batch ON results (batch_id, seq) WHERE seq > 0;

CREATE TABLE workers (
    id         text COLLATE "C" PRIMARY KEY,
    pool       text COLLATE "C" NOT NULL,
    version    text NOT NULL,
    slots      integer NOT NULL,
    busy       integer NOT NULL,
    draining   boolean NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    host       text
) WITH (fillfactor = 50);

-- Rows of a day without a partition are stored here. Nothing fails, but deleting them
-- later costs more than dropping a partition.
CREATE TABLE jobs_default PARTITION OF jobs DEFAULT;
CREATE TABLE specs_default PARTITION OF specs DEFAULT;
CREATE TABLE attempts_default PARTITION OF attempts DEFAULT;
CREATE TABLE results_default PARTITION OF results DEFAULT;

-- assay_tune sets the storage parameters that a partition cannot inherit. Dead index
-- entries slow down a queue in a table, so jobs are vacuumed early and without pauses.
CREATE FUNCTION assay_tune(parent text, part text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF parent = 'jobs' THEN
        EXECUTE format('ALTER TABLE %I SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02,
            autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
            autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_analyze_scale_factor = 0.2)', part);
    END IF;
END $$;
SELECT assay_tune('jobs', 'jobs_default');

-- assay_partitions creates the missing partitions of the given number of days, and returns
-- how many it created. It attaches an empty new table: unlike CREATE … PARTITION OF, that
-- neither waits for writers of the parent nor blocks them. A day that already has rows in
-- the default partition stays there.
CREATE FUNCTION assay_partitions(first date, days integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    key    text;
    part   text;
    day    date;
    lo     uuid;
    hi     uuid;
    taken  boolean;
    made   integer := 0;
BEGIN
    FOR i IN 0 .. days - 1 LOOP
        day := first + i;
        lo := (lpad(to_hex((extract(epoch FROM day::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
        hi := (lpad(to_hex((extract(epoch FROM (day + 1)::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
        FOREACH parent IN ARRAY ARRAY['jobs', 'specs', 'attempts', 'results'] LOOP
            part := parent || to_char(day, '_YYYYMMDD');
            key := CASE parent WHEN 'attempts' THEN 'job_id' ELSE 'id' END;
            CONTINUE WHEN to_regclass(part) IS NOT NULL;
            EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE %I >= $1 AND %2$I < $2)', parent || '_default', key)
                INTO taken USING lo, hi;
            CONTINUE WHEN taken;
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)', part, parent);
            PERFORM assay_tune(parent, part);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, lo, hi);
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;
