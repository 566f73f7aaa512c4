CREATE FUNCTION public.assay_batch_ended() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE callbacks SET ended_at = NEW.ended_at WHERE batch_id = NEW.batch_id;
    RETURN NULL;
END $$;

CREATE FUNCTION public.assay_callback_made() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.ended_at := (SELECT ended_at FROM batch_counts WHERE batch_id = NEW.batch_id);
    RETURN NEW;
END $$;

CREATE FUNCTION public.assay_first_id(day date) RETURNS uuid
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT (lpad(to_hex((extract(epoch FROM day::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

CREATE FUNCTION public.assay_live_bounds() RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN ARRAY(SELECT b[1]::uuid FROM regexp_matches(pg_get_viewdef('live_jobs'::regclass), '''([0-9a-f-]{36})''', 'g') WITH ORDINALITY AS m (b, n) ORDER BY n);
END $$;

CREATE FUNCTION public.assay_live_bounds(bounds uuid[]) RETURNS void
    LANGUAGE plpgsql
    AS $_$
DECLARE
    parent text;
    key    text;
    days   text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['jobs', 'specs', 'attempts', 'results'] LOOP
        key := CASE parent WHEN 'attempts' THEN 'job_id' ELSE 'id' END;
        days := format('%I >= %L::uuid', key, bounds[1]);
        FOR i IN 1 .. (cardinality(bounds) - 1) / 2 LOOP
            days := days || format(' OR %1$I >= %2$L::uuid AND %1$I < %3$L::uuid', key, bounds[2 * i], bounds[2 * i + 1]);
        END LOOP;
        EXECUTE format('CREATE OR REPLACE VIEW %I AS SELECT * FROM %I WHERE %s', 'live_' || parent, parent, days);
    END LOOP;
END $_$;

CREATE FUNCTION public.assay_live_days() RETURNS bigint
    LANGUAGE plpgsql
    AS $_$
DECLARE
    bounds uuid[] := assay_live_bounds();
    days   bigint;
BEGIN
    SELECT count(*) INTO days FROM (
        SELECT (lpad(to_hex((extract(epoch FROM to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid AS first
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'jobs'::regclass AND c.relname ~ '^jobs_[0-9]{8}$') d
    WHERE d.first >= bounds[1] OR EXISTS (SELECT FROM generate_series(2, cardinality(bounds), 2) AS n WHERE d.first >= bounds[n] AND d.first < bounds[n + 1]);
    RETURN days;
END $_$;

CREATE FUNCTION public.assay_live_since() RETURNS uuid
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (SELECT b FROM unnest(assay_live_bounds()) AS u (b) ORDER BY b LIMIT 1);
END $$;

CREATE FUNCTION public.assay_live_since(since uuid) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['jobs', 'specs', 'attempts', 'results'] LOOP
        EXECUTE format('CREATE OR REPLACE VIEW %I AS SELECT * FROM %I WHERE %I >= %L::uuid', 'live_' || parent, parent,
            CASE parent WHEN 'attempts' THEN 'job_id' ELSE 'id' END, since);
    END LOOP;
END $$;

CREATE FUNCTION public.assay_number_key() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE key_changes SET n = n + 1 WHERE one RETURNING n INTO NEW.changed;
    RETURN NEW;
END $$;

CREATE FUNCTION public.assay_partition(parent text, day date) RETURNS boolean
    LANGUAGE plpgsql
    AS $_$
DECLARE
    part text := parent || to_char(day, '_YYYYMMDD');
    rest text := parent || '_default';
    key  text := CASE parent WHEN 'attempts' THEN 'job_id' ELSE 'id' END;
    lo   uuid := assay_first_id(day);
    hi   uuid := assay_first_id(day + 1);
    is_to   uuid := assay_partition_end(part); -- where the partition ends
    goes_to uuid;                              -- where it will
    moves   boolean;
BEGIN
    IF is_to >= hi OR is_to IS NULL AND to_regclass(part) IS NOT NULL THEN
        RETURN false;
    END IF;
    IF is_to IS NOT NULL THEN
        EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', parent);
    END IF;
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', rest);
    EXECUTE format('SELECT EXISTS (SELECT FROM %2$I WHERE %1$I >= $1 AND %1$I < $2), (SELECT %1$I FROM %2$I WHERE %1$I >= $1 AND %1$I < $2 ORDER BY %1$I OFFSET 20000 LIMIT 1)', key, rest)
        INTO moves, goes_to USING coalesce(is_to, lo), hi;
    goes_to := coalesce(goes_to, hi);
    IF is_to IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)', part, parent);
        PERFORM assay_tune(parent, part);
    ELSE
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, part);
    END IF;
    IF moves THEN
        EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I >= $1 AND %2$I < $2 RETURNING *) INSERT INTO %I SELECT * FROM moved',
            rest, key, part) USING coalesce(is_to, lo), goes_to;
    END IF;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, lo, goes_to);
    RETURN true;
END $_$;

CREATE FUNCTION public.assay_partition_end(part text) RETURNS uuid
    LANGUAGE sql STABLE
    AS $$
    SELECT (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([0-9a-f-]{36})''\)'))[1]::uuid FROM pg_class c WHERE c.oid = to_regclass(part)
$$;

CREATE FUNCTION public.assay_partitions(first date, days integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
    parent text;
    made   integer := 0;
BEGIN
    FOR i IN 0 .. days - 1 LOOP
        FOREACH parent IN ARRAY ARRAY['jobs', 'specs', 'attempts', 'results'] LOOP
            made := made + assay_partition(parent, first + i)::integer;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

CREATE FUNCTION public.assay_tune(parent text, part text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF parent = 'jobs' THEN
        EXECUTE format('ALTER TABLE %I SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02,
            autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
            autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_analyze_scale_factor = 0.2)', part);
    ELSIF parent IN ('specs', 'attempts', 'results')
        AND (SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression') THEN
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET COMPRESSION lz4', part,
            CASE parent WHEN 'specs' THEN 'spec' ELSE 'body' END);
    END IF;
END $$;

CREATE TABLE public.attempts (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    worker text NOT NULL,
    outcome text COLLATE pg_catalog."C",
    reason text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    message text DEFAULT ''::text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone DEFAULT now() NOT NULL,
    body text,
    CONSTRAINT attempts_lease_check CHECK ((lease > 0)),
    CONSTRAINT attempts_reason CHECK ((reason = ANY (ARRAY[''::text, 'lost'::text, 'drained'::text, 'preempted'::text, 'infra'::text]))),
    CONSTRAINT attempts_why CHECK (((outcome IS NULL) = (reason <> ''::text)))
)
PARTITION BY RANGE (job_id);

CREATE TABLE public.attempts_default (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    worker text NOT NULL,
    outcome text COLLATE pg_catalog."C",
    reason text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    message text DEFAULT ''::text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone DEFAULT now() NOT NULL,
    body text,
    CONSTRAINT attempts_lease_check CHECK ((lease > 0)),
    CONSTRAINT attempts_reason CHECK ((reason = ANY (ARRAY[''::text, 'lost'::text, 'drained'::text, 'preempted'::text, 'infra'::text]))),
    CONSTRAINT attempts_why CHECK (((outcome IS NULL) = (reason <> ''::text)))
);
ALTER TABLE ONLY public.attempts_default ALTER COLUMN body SET COMPRESSION lz4;

CREATE TABLE public.batch_counts (
    batch_id uuid NOT NULL,
    total bigint NOT NULL,
    recorded bigint DEFAULT 0 NOT NULL,
    succeeded bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    exception bigint DEFAULT 0 NOT NULL,
    timed_out bigint DEFAULT 0 NOT NULL,
    out_of_memory bigint DEFAULT 0 NOT NULL,
    output_limit bigint DEFAULT 0 NOT NULL,
    disk_limit bigint DEFAULT 0 NOT NULL,
    process_limit bigint DEFAULT 0 NOT NULL,
    signaled bigint DEFAULT 0 NOT NULL,
    policy_violation bigint DEFAULT 0 NOT NULL,
    canceled bigint DEFAULT 0 NOT NULL,
    expired bigint DEFAULT 0 NOT NULL,
    lost bigint DEFAULT 0 NOT NULL,
    ended_at timestamp with time zone,
    check_error bigint DEFAULT 0 NOT NULL,
    setup_error bigint DEFAULT 0 NOT NULL,
    compile_error bigint DEFAULT 0 NOT NULL,
    erased bigint DEFAULT 0 NOT NULL,
    erased_numbers bigint DEFAULT 0 NOT NULL,
    CONSTRAINT batch_counts_bounded CHECK ((recorded <= total)),
    CONSTRAINT batch_counts_ended CHECK (((recorded = total) = (ended_at IS NOT NULL)))
)
WITH (fillfactor='40', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000');

CREATE TABLE public.batch_leases (
    batch_id uuid NOT NULL,
    ttl bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    over_at timestamp with time zone,
    lapsed boolean DEFAULT false NOT NULL,
    CONSTRAINT batch_leases_lapsed CHECK (((NOT lapsed) OR (over_at IS NOT NULL))),
    CONSTRAINT batch_leases_ttl_check CHECK ((ttl > 0))
)
WITH (fillfactor='50');

CREATE TABLE public.batches (
    id uuid NOT NULL,
    tenant_id integer NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    labels text,
    traceparent text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    appended_at timestamp with time zone DEFAULT now() NOT NULL,
    appended bigint DEFAULT 0 NOT NULL,
    sealed_at timestamp with time zone,
    dropped_at timestamp with time zone,
    cancel_requested boolean DEFAULT false NOT NULL,
    retry_of uuid,
    label_caps jsonb,
    paused_at timestamp with time zone,
    paused_by text DEFAULT ''::text NOT NULL,
    pause text DEFAULT ''::text NOT NULL,
    first_job uuid,
    last_job uuid,
    spanned bigint DEFAULT 0 NOT NULL,
    next_chunk bigint,
    expiring boolean DEFAULT false NOT NULL,
    CONSTRAINT batches_sealed_or_dropped CHECK (((sealed_at IS NULL) OR (dropped_at IS NULL)))
);

CREATE TABLE public.blames (
    job_id uuid NOT NULL,
    lease bigint NOT NULL,
    worker text NOT NULL,
    worker_since timestamp with time zone,
    blamed_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.callbacks (
    batch_id uuid NOT NULL,
    delivery uuid NOT NULL,
    tenant_id integer NOT NULL,
    url text NOT NULL,
    secret text DEFAULT ''::text NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    next_at timestamp with time zone DEFAULT now() NOT NULL,
    last_error text DEFAULT ''::text NOT NULL,
    delivered_at timestamp with time zone,
    given_up_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT callbacks_one_end CHECK (((delivered_at IS NULL) OR (given_up_at IS NULL)))
)
WITH (fillfactor='70');

CREATE TABLE public.environments (
    name text NOT NULL COLLATE pg_catalog."C",
    pool text NOT NULL COLLATE pg_catalog."C",
    witness text NOT NULL COLLATE pg_catalog."C",
    worker text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    stated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT environments_digest_check CHECK ((digest ~ '^sha256:[0-9a-f]{64}$'::text)),
    CONSTRAINT environments_name_check CHECK ((name ~ '^[0-9a-f]{64}$'::text))
);

CREATE TABLE public.executes (
    session_id uuid NOT NULL,
    id uuid NOT NULL,
    code text NOT NULL,
    result text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    seq bigint DEFAULT 0 NOT NULL
);

CREATE TABLE public.fleet (
    one boolean DEFAULT true NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    signing_key bytea,
    CONSTRAINT fleet_one_check CHECK (one),
    CONSTRAINT fleet_signing_key_check CHECK ((length(signing_key) >= 32))
);

CREATE TABLE public.history (
    one boolean DEFAULT true NOT NULL,
    since timestamp with time zone NOT NULL,
    CONSTRAINT history_one_check CHECK (one)
);

CREATE TABLE public.idempotency_keys (
    tenant_id integer NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    hash text NOT NULL,
    made uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    held_until timestamp with time zone
);

CREATE TABLE public.imports (
    id uuid NOT NULL,
    fleet text NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    tenant_id integer NOT NULL,
    rows bigint DEFAULT 0 NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    finished_at timestamp with time zone
);

CREATE TABLE public.jobs (
    id uuid NOT NULL,
    batch_id uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid NOT NULL,
    tenant_id integer NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    dispatch_gen integer DEFAULT 0 NOT NULL,
    lease bigint DEFAULT 0 NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    max_attempts integer DEFAULT 1 NOT NULL,
    losses integer DEFAULT 0 NOT NULL,
    earlier integer DEFAULT 0 NOT NULL,
    cancel_requested boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    dispatched_at timestamp with time zone,
    published_at timestamp with time zone,
    started_at timestamp with time zone,
    lease_until timestamp with time zone,
    ended_at timestamp with time zone,
    pool text NOT NULL COLLATE pg_catalog."C",
    state text DEFAULT 'queued'::text NOT NULL COLLATE pg_catalog."C",
    outcome text COLLATE pg_catalog."C",
    worker text,
    retry_on text,
    traceparent text,
    identity text DEFAULT ''::text NOT NULL,
    not_before timestamp with time zone,
    cache_key bytea,
    caps text,
    lane integer DEFAULT 0 NOT NULL,
    kills integer DEFAULT 0 NOT NULL,
    worker_since timestamp with time zone,
    CONSTRAINT jobs_dispatched CHECK (((state <> 'dispatched'::text) OR ((dispatch_gen > 0) AND (dispatched_at IS NOT NULL) AND (published_at IS NOT NULL)))),
    CONSTRAINT jobs_ended CHECK ((((state = ANY (ARRAY['finished'::text, 'canceled'::text])) = (ended_at IS NOT NULL)) AND ((ended_at IS NULL) = (outcome IS NULL)) AND ((state = 'canceled'::text) = (NOT (outcome IS DISTINCT FROM 'canceled'::text))))),
    CONSTRAINT jobs_lane CHECK (((lane >= 0) AND ((lane > 0) = (caps IS NOT NULL)))),
    CONSTRAINT jobs_max_attempts_check CHECK ((max_attempts > 0)),
    CONSTRAINT jobs_running CHECK ((((state = 'running'::text) = (lease_until IS NOT NULL)) AND ((state <> 'running'::text) OR ((lease > 0) AND (worker IS NOT NULL) AND (started_at IS NOT NULL))))),
    CONSTRAINT jobs_state CHECK ((state = ANY (ARRAY['queued'::text, 'dispatched'::text, 'running'::text, 'finished'::text, 'canceled'::text])))
)
PARTITION BY RANGE (id);

CREATE TABLE public.jobs_default (
    id uuid NOT NULL,
    batch_id uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid NOT NULL,
    tenant_id integer NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    dispatch_gen integer DEFAULT 0 NOT NULL,
    lease bigint DEFAULT 0 NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    max_attempts integer DEFAULT 1 NOT NULL,
    losses integer DEFAULT 0 NOT NULL,
    earlier integer DEFAULT 0 NOT NULL,
    cancel_requested boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    dispatched_at timestamp with time zone,
    published_at timestamp with time zone,
    started_at timestamp with time zone,
    lease_until timestamp with time zone,
    ended_at timestamp with time zone,
    pool text NOT NULL COLLATE pg_catalog."C",
    state text DEFAULT 'queued'::text NOT NULL COLLATE pg_catalog."C",
    outcome text COLLATE pg_catalog."C",
    worker text,
    retry_on text,
    traceparent text,
    identity text DEFAULT ''::text NOT NULL,
    not_before timestamp with time zone,
    cache_key bytea,
    caps text,
    lane integer DEFAULT 0 NOT NULL,
    kills integer DEFAULT 0 NOT NULL,
    worker_since timestamp with time zone,
    CONSTRAINT jobs_dispatched CHECK (((state <> 'dispatched'::text) OR ((dispatch_gen > 0) AND (dispatched_at IS NOT NULL) AND (published_at IS NOT NULL)))),
    CONSTRAINT jobs_ended CHECK ((((state = ANY (ARRAY['finished'::text, 'canceled'::text])) = (ended_at IS NOT NULL)) AND ((ended_at IS NULL) = (outcome IS NULL)) AND ((state = 'canceled'::text) = (NOT (outcome IS DISTINCT FROM 'canceled'::text))))),
    CONSTRAINT jobs_lane CHECK (((lane >= 0) AND ((lane > 0) = (caps IS NOT NULL)))),
    CONSTRAINT jobs_max_attempts_check CHECK ((max_attempts > 0)),
    CONSTRAINT jobs_running CHECK ((((state = 'running'::text) = (lease_until IS NOT NULL)) AND ((state <> 'running'::text) OR ((lease > 0) AND (worker IS NOT NULL) AND (started_at IS NOT NULL))))),
    CONSTRAINT jobs_state CHECK ((state = ANY (ARRAY['queued'::text, 'dispatched'::text, 'running'::text, 'finished'::text, 'canceled'::text])))
)
WITH (fillfactor='90', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_scale_factor='0.2');

CREATE TABLE public.key_changes (
    one boolean DEFAULT true NOT NULL,
    n bigint NOT NULL,
    CONSTRAINT key_changes_one_check CHECK (one)
);

CREATE TABLE public.keys (
    id uuid NOT NULL,
    tenant_id integer NOT NULL,
    name text NOT NULL,
    hash bytea NOT NULL,
    role text NOT NULL COLLATE pg_catalog."C",
    label text DEFAULT ''::text NOT NULL,
    policy text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_by text DEFAULT ''::text NOT NULL,
    last_used_at timestamp with time zone,
    changed bigint DEFAULT 0 NOT NULL,
    CONSTRAINT keys_hash CHECK ((octet_length(hash) = 32)),
    CONSTRAINT keys_role CHECK ((role = ANY (ARRAY['reader'::text, 'submitter'::text, 'operator'::text, 'admin'::text])))
);

CREATE TABLE public.leaders (
    role text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL,
    term bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='50');

CREATE SEQUENCE public.leases
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.lineage (
    one boolean DEFAULT true NOT NULL,
    name text NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    reapplied text,
    CONSTRAINT lineage_one_check CHECK (one)
);

CREATE VIEW public.live_attempts AS
 SELECT attempts.job_id,
    attempts.lease,
    attempts.worker,
    attempts.outcome,
    attempts.reason,
    attempts.message,
    attempts.started_at,
    attempts.ended_at,
    attempts.body
   FROM public.attempts
  WHERE (attempts.job_id >= '00000000-0000-0000-0000-000000000000'::uuid);

CREATE VIEW public.live_jobs AS
 SELECT jobs.id,
    jobs.batch_id,
    jobs.tenant_id,
    jobs.priority,
    jobs.dispatch_gen,
    jobs.lease,
    jobs.tries,
    jobs.max_attempts,
    jobs.losses,
    jobs.earlier,
    jobs.cancel_requested,
    jobs.created_at,
    jobs.expires_at,
    jobs.dispatched_at,
    jobs.published_at,
    jobs.started_at,
    jobs.lease_until,
    jobs.ended_at,
    jobs.pool,
    jobs.state,
    jobs.outcome,
    jobs.worker,
    jobs.retry_on,
    jobs.traceparent,
    jobs.identity,
    jobs.not_before,
    jobs.cache_key,
    jobs.caps,
    jobs.lane,
    jobs.kills,
    jobs.worker_since
   FROM public.jobs
  WHERE (jobs.id >= '00000000-0000-0000-0000-000000000000'::uuid);

CREATE TABLE public.results (
    id uuid NOT NULL,
    batch_id uuid NOT NULL,
    seq bigint NOT NULL,
    lease bigint NOT NULL,
    tenant_id integer NOT NULL,
    recorded_at timestamp with time zone DEFAULT now() NOT NULL,
    outcome text NOT NULL COLLATE pg_catalog."C",
    reason text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    worker text,
    identity text NOT NULL,
    attempts text,
    body text NOT NULL,
    CONSTRAINT results_reason CHECK ((reason = ANY (ARRAY[''::text, 'lost'::text, 'drained'::text, 'preempted'::text, 'infra'::text])))
)
PARTITION BY RANGE (id);

CREATE VIEW public.live_results AS
 SELECT results.id,
    results.batch_id,
    results.seq,
    results.lease,
    results.tenant_id,
    results.recorded_at,
    results.outcome,
    results.reason,
    results.worker,
    results.identity,
    results.attempts,
    results.body
   FROM public.results
  WHERE (results.id >= '00000000-0000-0000-0000-000000000000'::uuid);

CREATE TABLE public.specs (
    id uuid NOT NULL,
    spec text NOT NULL
)
PARTITION BY RANGE (id);

CREATE VIEW public.live_specs AS
 SELECT specs.id,
    specs.spec
   FROM public.specs
  WHERE (specs.id >= '00000000-0000-0000-0000-000000000000'::uuid);

CREATE TABLE public.operator_actions (
    id uuid NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    actor text NOT NULL,
    token text DEFAULT ''::text NOT NULL,
    action text NOT NULL COLLATE pg_catalog."C",
    subject text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    detail jsonb,
    outcome text NOT NULL,
    seq bigint NOT NULL,
    tenant text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    remote text DEFAULT ''::text NOT NULL,
    before json,
    after json,
    CONSTRAINT operator_actions_outcome CHECK ((outcome = ANY (ARRAY['done'::text, 'unchanged'::text, 'failed'::text])))
);

ALTER TABLE public.operator_actions ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.operator_actions_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.paused_pools (
    pool text NOT NULL COLLATE pg_catalog."C",
    paused_at timestamp with time zone DEFAULT now() NOT NULL,
    paused_by text NOT NULL,
    pause text NOT NULL
);

CREATE TABLE public.policies (
    tenant_id integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    policy text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT policies_version_check CHECK ((version > 0))
);

CREATE TABLE public.reports (
    source text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL,
    body text NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE public.results_default (
    id uuid NOT NULL,
    batch_id uuid NOT NULL,
    seq bigint NOT NULL,
    lease bigint NOT NULL,
    tenant_id integer NOT NULL,
    recorded_at timestamp with time zone DEFAULT now() NOT NULL,
    outcome text NOT NULL COLLATE pg_catalog."C",
    reason text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    worker text,
    identity text NOT NULL,
    attempts text,
    body text NOT NULL,
    CONSTRAINT results_reason CHECK ((reason = ANY (ARRAY[''::text, 'lost'::text, 'drained'::text, 'preempted'::text, 'infra'::text])))
);
ALTER TABLE ONLY public.results_default ALTER COLUMN body SET COMPRESSION lz4;

CREATE TABLE public.secrets (
    tenant_id integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.sessions (
    id uuid NOT NULL,
    tenant_id integer NOT NULL,
    worker text NOT NULL,
    parent uuid,
    spec text NOT NULL,
    state text DEFAULT 'live'::text NOT NULL,
    outcome text,
    message text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    enforcement text,
    executed bigint DEFAULT 0 NOT NULL,
    CONSTRAINT sessions_check CHECK (((state = 'ended'::text) = ((outcome IS NOT NULL) AND (ended_at IS NOT NULL)))),
    CONSTRAINT sessions_state_check CHECK ((state = ANY (ARRAY['live'::text, 'ended'::text])))
);

CREATE TABLE public.set_aside (
    id uuid NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    step text NOT NULL COLLATE pg_catalog."C",
    job_id uuid NOT NULL,
    batch_id uuid NOT NULL,
    tenant_id integer NOT NULL,
    lease bigint NOT NULL,
    worker text DEFAULT ''::text NOT NULL,
    outcome text NOT NULL COLLATE pg_catalog."C",
    body bytea,
    message text DEFAULT ''::text NOT NULL,
    sqlstate text NOT NULL COLLATE pg_catalog."C",
    error text NOT NULL,
    ended text NOT NULL COLLATE pg_catalog."C",
    seq bigint DEFAULT 0 NOT NULL,
    CONSTRAINT set_aside_ended CHECK ((ended = ANY (ARRAY['recorded'::text, 'uncounted'::text, 'counted'::text, 'unrecorded'::text, 'held'::text])))
);

CREATE TABLE public.specs_default (
    id uuid NOT NULL,
    spec text NOT NULL
);
ALTER TABLE ONLY public.specs_default ALTER COLUMN spec SET COMPRESSION lz4;

CREATE TABLE public.tenants (
    id integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    weight double precision DEFAULT 1 NOT NULL,
    max_running integer,
    ceiling text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    label_caps jsonb,
    paused_at timestamp with time zone,
    paused_by text DEFAULT ''::text NOT NULL,
    pause text DEFAULT ''::text NOT NULL,
    override jsonb,
    override_until timestamp with time zone,
    granted jsonb,
    version bigint DEFAULT 0 NOT NULL,
    entry text DEFAULT ''::text NOT NULL,
    CONSTRAINT tenants_max_running_check CHECK ((max_running > 0)),
    CONSTRAINT tenants_overridden CHECK ((((override IS NULL) = (granted IS NULL)) AND ((override_until IS NULL) OR (override IS NOT NULL)))),
    CONSTRAINT tenants_weight_check CHECK ((weight > (0)::double precision))
);

ALTER TABLE public.tenants ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.tenants_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.upload_chunks (
    batch_id uuid NOT NULL,
    n bigint NOT NULL,
    digest bytea NOT NULL,
    jobs bigint NOT NULL,
    CONSTRAINT upload_chunks_digest_check CHECK ((length(digest) = 32))
);

CREATE TABLE public.uploads (
    batch_id uuid NOT NULL,
    defaults text
);

CREATE TABLE public.workers (
    id text NOT NULL COLLATE pg_catalog."C",
    pool text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL,
    slots integer NOT NULL,
    busy integer NOT NULL,
    draining boolean NOT NULL,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    host text,
    offer text,
    quarantined_until timestamp with time zone,
    quarantines integer DEFAULT 0 NOT NULL,
    quarantine text DEFAULT ''::text NOT NULL,
    held text DEFAULT ''::text NOT NULL,
    took_over_at timestamp with time zone,
    rival_since timestamp with time zone,
    rival_at timestamp with time zone,
    tally text,
    cordoned_at timestamp with time zone,
    cordoned_by text DEFAULT ''::text NOT NULL,
    cordon text DEFAULT ''::text NOT NULL,
    load text
)
WITH (fillfactor='50');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_default DEFAULT;

ALTER TABLE ONLY public.jobs ATTACH PARTITION public.jobs_default DEFAULT;

ALTER TABLE ONLY public.results ATTACH PARTITION public.results_default DEFAULT;

ALTER TABLE ONLY public.specs ATTACH PARTITION public.specs_default DEFAULT;

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (job_id, lease);

ALTER TABLE ONLY public.attempts_default
    ADD CONSTRAINT attempts_default_pkey PRIMARY KEY (job_id, lease);

ALTER TABLE public.attempts
    ADD CONSTRAINT attempts_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'exception'::text, 'timed_out'::text, 'out_of_memory'::text, 'output_limit'::text, 'disk_limit'::text, 'process_limit'::text, 'signaled'::text, 'policy_violation'::text, 'canceled'::text, 'expired'::text, 'lost'::text, 'check_error'::text, 'setup_error'::text, 'compile_error'::text]))) NOT VALID;

ALTER TABLE ONLY public.batch_counts
    ADD CONSTRAINT batch_counts_pkey PRIMARY KEY (batch_id);

ALTER TABLE public.batch_counts
    ADD CONSTRAINT batch_counts_reconcile CHECK ((recorded = (((((((((((((((succeeded + failed) + exception) + timed_out) + out_of_memory) + output_limit) + disk_limit) + process_limit) + signaled) + policy_violation) + canceled) + expired) + lost) + check_error) + setup_error) + compile_error))) NOT VALID;

ALTER TABLE ONLY public.batch_leases
    ADD CONSTRAINT batch_leases_pkey PRIMARY KEY (batch_id);

ALTER TABLE ONLY public.batches
    ADD CONSTRAINT batches_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.blames
    ADD CONSTRAINT blames_pkey PRIMARY KEY (job_id, lease);

ALTER TABLE ONLY public.callbacks
    ADD CONSTRAINT callbacks_pkey PRIMARY KEY (batch_id);

ALTER TABLE ONLY public.environments
    ADD CONSTRAINT environments_pkey PRIMARY KEY (name, pool, witness);

ALTER TABLE ONLY public.executes
    ADD CONSTRAINT executes_pkey PRIMARY KEY (session_id, id);

ALTER TABLE ONLY public.fleet
    ADD CONSTRAINT fleet_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, key);

ALTER TABLE ONLY public.imports
    ADD CONSTRAINT imports_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_default
    ADD CONSTRAINT jobs_default_pkey PRIMARY KEY (id);

ALTER TABLE public.jobs
    ADD CONSTRAINT jobs_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'exception'::text, 'timed_out'::text, 'out_of_memory'::text, 'output_limit'::text, 'disk_limit'::text, 'process_limit'::text, 'signaled'::text, 'policy_violation'::text, 'canceled'::text, 'expired'::text, 'lost'::text, 'check_error'::text, 'setup_error'::text, 'compile_error'::text]))) NOT VALID;

ALTER TABLE ONLY public.key_changes
    ADD CONSTRAINT key_changes_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_hash_key UNIQUE (hash);

ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.leaders
    ADD CONSTRAINT leaders_pkey PRIMARY KEY (role);

ALTER TABLE ONLY public.lineage
    ADD CONSTRAINT lineage_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.operator_actions
    ADD CONSTRAINT operator_actions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.paused_pools
    ADD CONSTRAINT paused_pools_pkey PRIMARY KEY (pool);

ALTER TABLE ONLY public.policies
    ADD CONSTRAINT policies_pkey PRIMARY KEY (tenant_id, name, version);

ALTER TABLE ONLY public.reports
    ADD CONSTRAINT reports_pkey PRIMARY KEY (source);

ALTER TABLE ONLY public.results
    ADD CONSTRAINT results_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.results_default
    ADD CONSTRAINT results_default_pkey PRIMARY KEY (id);

ALTER TABLE public.results
    ADD CONSTRAINT results_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'exception'::text, 'timed_out'::text, 'out_of_memory'::text, 'output_limit'::text, 'disk_limit'::text, 'process_limit'::text, 'signaled'::text, 'policy_violation'::text, 'canceled'::text, 'expired'::text, 'lost'::text, 'check_error'::text, 'setup_error'::text, 'compile_error'::text]))) NOT VALID;

ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.set_aside
    ADD CONSTRAINT set_aside_job_id_lease_key UNIQUE (job_id, lease);

ALTER TABLE ONLY public.set_aside
    ADD CONSTRAINT set_aside_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.specs
    ADD CONSTRAINT specs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.specs_default
    ADD CONSTRAINT specs_default_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_name_key UNIQUE (name);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.upload_chunks
    ADD CONSTRAINT upload_chunks_pkey PRIMARY KEY (batch_id, n);

ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT uploads_pkey PRIMARY KEY (batch_id);

ALTER TABLE ONLY public.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (id);

CREATE INDEX batch_counts_live ON public.batch_counts USING btree (batch_id) WHERE (ended_at IS NULL);

CREATE INDEX batch_leases_live ON public.batch_leases USING btree (batch_id) WHERE (over_at IS NULL);

CREATE INDEX batches_by_seal ON public.batches USING btree (tenant_id, sealed_at, id) WHERE (sealed_at IS NOT NULL);

CREATE INDEX batches_by_tenant ON public.batches USING btree (tenant_id, id) WHERE (sealed_at IS NOT NULL);

CREATE INDEX batches_expiring ON public.batches USING btree (id) WHERE (expiring AND (sealed_at IS NOT NULL));

CREATE INDEX batches_open ON public.batches USING btree (id) WHERE (sealed_at IS NULL);

CREATE INDEX batches_paused ON public.batches USING btree (id) WHERE (paused_at IS NOT NULL);

CREATE INDEX batches_sealed ON public.batches USING btree (sealed_at, id) WHERE (sealed_at IS NOT NULL);

CREATE INDEX callbacks_due ON public.callbacks USING btree (tenant_id, next_at) WHERE ((delivered_at IS NULL) AND (given_up_at IS NULL) AND (ended_at IS NOT NULL));

CREATE INDEX callbacks_of ON public.callbacks USING btree (tenant_id) WHERE ((delivered_at IS NULL) AND (given_up_at IS NULL));

CREATE INDEX callbacks_open ON public.callbacks USING btree (batch_id) WHERE ((delivered_at IS NULL) AND (given_up_at IS NULL));

CREATE INDEX environments_age ON public.environments USING btree (stated_at);

CREATE INDEX environments_witness ON public.environments USING btree (pool, witness, stated_at);

CREATE INDEX executes_in_order ON public.executes USING btree (session_id, seq, id);

CREATE INDEX idempotency_keys_age ON public.idempotency_keys USING btree (created_at);

CREATE INDEX jobs_by_priority ON ONLY public.jobs USING btree (pool, tenant_id, ((- priority)), batch_id, lane, id) WHERE (state = 'queued'::text);

CREATE INDEX jobs_capped ON ONLY public.jobs USING btree (tenant_id) WHERE ((lane > 0) AND (state = ANY (ARRAY['dispatched'::text, 'running'::text])));

CREATE INDEX jobs_dispatched_at ON ONLY public.jobs USING btree (dispatched_at) WHERE (upper(state) = 'DISPATCHED'::text);

CREATE INDEX jobs_default_dispatched_at_idx ON public.jobs_default USING btree (dispatched_at) WHERE (upper(state) = 'DISPATCHED'::text);

CREATE INDEX jobs_running_at ON ONLY public.jobs USING btree (dispatched_at) WHERE (upper(state) = 'RUNNING'::text);

CREATE INDEX jobs_default_dispatched_at_idx1 ON public.jobs_default USING btree (dispatched_at) WHERE (upper(state) = 'RUNNING'::text);

CREATE INDEX jobs_expiring ON ONLY public.jobs USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (state = ANY (ARRAY['queued'::text, 'dispatched'::text])));

CREATE INDEX jobs_default_expires_at_idx ON public.jobs_default USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (state = ANY (ARRAY['queued'::text, 'dispatched'::text])));

CREATE INDEX jobs_queued ON ONLY public.jobs USING btree (pool, tenant_id, batch_id, priority, lane, id) WHERE (state = 'queued'::text);

CREATE INDEX jobs_default_pool_tenant_id_batch_id_priority_lane_id_idx ON public.jobs_default USING btree (pool, tenant_id, batch_id, priority, lane, id) WHERE (state = 'queued'::text);

CREATE INDEX jobs_default_pool_tenant_id_expr_batch_id_lane_id_idx ON public.jobs_default USING btree (pool, tenant_id, ((- priority)), batch_id, lane, id) WHERE (state = 'queued'::text);

CREATE INDEX jobs_dispatched ON ONLY public.jobs USING btree (tenant_id, batch_id) WHERE (state = 'dispatched'::text);

CREATE INDEX jobs_default_tenant_id_batch_id_idx ON public.jobs_default USING btree (tenant_id, batch_id) WHERE (state = 'dispatched'::text);

CREATE INDEX jobs_running ON ONLY public.jobs USING btree (tenant_id, batch_id) WHERE (state = 'running'::text);

CREATE INDEX jobs_default_tenant_id_batch_id_idx1 ON public.jobs_default USING btree (tenant_id, batch_id) WHERE (state = 'running'::text);

CREATE INDEX jobs_repeatable ON ONLY public.jobs USING btree (tenant_id, cache_key, id) WHERE ((cache_key IS NOT NULL) AND (outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'exception'::text])));

CREATE INDEX jobs_default_tenant_id_cache_key_id_idx ON public.jobs_default USING btree (tenant_id, cache_key, id) WHERE ((cache_key IS NOT NULL) AND (outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'exception'::text])));

CREATE INDEX jobs_default_tenant_id_idx ON public.jobs_default USING btree (tenant_id) WHERE ((lane > 0) AND (state = ANY (ARRAY['dispatched'::text, 'running'::text])));

CREATE INDEX keys_changed ON public.keys USING btree (changed);

CREATE INDEX keys_live ON public.keys USING btree (tenant_id, expires_at) WHERE (revoked_at IS NULL);

CREATE INDEX keys_tenant ON public.keys USING btree (tenant_id, id);

CREATE INDEX operator_actions_at ON public.operator_actions USING btree (at);

CREATE UNIQUE INDEX operator_actions_seq ON public.operator_actions USING btree (seq);

CREATE INDEX operator_actions_subject ON public.operator_actions USING btree (subject, id);

CREATE INDEX operator_actions_tenant ON public.operator_actions USING btree (tenant, id);

CREATE INDEX results_by_batch ON ONLY public.results USING btree (batch_id, seq) WHERE (seq > 0);

CREATE INDEX results_default_batch_id_seq_idx ON public.results_default USING btree (batch_id, seq) WHERE (seq > 0);

CREATE INDEX sessions_live ON public.sessions USING btree (worker) WHERE (state = 'live'::text);

CREATE INDEX sessions_tenant ON public.sessions USING btree (tenant_id, id);

CREATE INDEX sessions_tenant_live ON public.sessions USING btree (tenant_id, id) WHERE (state = 'live'::text);

CREATE INDEX set_aside_held ON public.set_aside USING btree (job_id) WHERE (ended = 'held'::text);

CREATE INDEX tenants_override_ends ON public.tenants USING btree (override_until) WHERE (override_until IS NOT NULL);

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_default_pkey;

ALTER INDEX public.jobs_dispatched_at ATTACH PARTITION public.jobs_default_dispatched_at_idx;

ALTER INDEX public.jobs_running_at ATTACH PARTITION public.jobs_default_dispatched_at_idx1;

ALTER INDEX public.jobs_expiring ATTACH PARTITION public.jobs_default_expires_at_idx;

ALTER INDEX public.jobs_pkey ATTACH PARTITION public.jobs_default_pkey;

ALTER INDEX public.jobs_queued ATTACH PARTITION public.jobs_default_pool_tenant_id_batch_id_priority_lane_id_idx;

ALTER INDEX public.jobs_by_priority ATTACH PARTITION public.jobs_default_pool_tenant_id_expr_batch_id_lane_id_idx;

ALTER INDEX public.jobs_dispatched ATTACH PARTITION public.jobs_default_tenant_id_batch_id_idx;

ALTER INDEX public.jobs_running ATTACH PARTITION public.jobs_default_tenant_id_batch_id_idx1;

ALTER INDEX public.jobs_repeatable ATTACH PARTITION public.jobs_default_tenant_id_cache_key_id_idx;

ALTER INDEX public.jobs_capped ATTACH PARTITION public.jobs_default_tenant_id_idx;

ALTER INDEX public.results_by_batch ATTACH PARTITION public.results_default_batch_id_seq_idx;

ALTER INDEX public.results_pkey ATTACH PARTITION public.results_default_pkey;

ALTER INDEX public.specs_pkey ATTACH PARTITION public.specs_default_pkey;

CREATE TRIGGER batch_counts_empty AFTER INSERT ON public.batch_counts FOR EACH ROW WHEN ((new.ended_at IS NOT NULL)) EXECUTE FUNCTION public.assay_batch_ended();

CREATE TRIGGER batch_counts_ended AFTER UPDATE OF ended_at ON public.batch_counts FOR EACH ROW WHEN ((old.ended_at IS DISTINCT FROM new.ended_at)) EXECUTE FUNCTION public.assay_batch_ended();

CREATE TRIGGER callbacks_made BEFORE INSERT ON public.callbacks FOR EACH ROW WHEN ((new.ended_at IS NULL)) EXECUTE FUNCTION public.assay_callback_made();

CREATE TRIGGER keys_numbered BEFORE INSERT OR UPDATE OF revoked_at, expires_at, role, label, policy ON public.keys FOR EACH ROW EXECUTE FUNCTION public.assay_number_key();

ALTER TABLE ONLY public.batch_leases
    ADD CONSTRAINT batch_leases_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES public.batches(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.callbacks
    ADD CONSTRAINT callbacks_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES public.batches(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.executes
    ADD CONSTRAINT executes_session_id_fkey FOREIGN KEY (session_id) REFERENCES public.sessions(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.imports
    ADD CONSTRAINT imports_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.policies
    ADD CONSTRAINT policies_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE ONLY public.upload_chunks
    ADD CONSTRAINT upload_chunks_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES public.batches(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT uploads_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES public.batches(id) ON DELETE CASCADE;
