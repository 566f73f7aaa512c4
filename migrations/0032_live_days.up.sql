-- The live views have all days from a bound on, and single earlier days with unfinished jobs. A job that waits for
-- weeks adds only its own day to the queue's statements, not the days since.
--
-- bounds: the first id of all later days, then the first id and the end of each stretch of earlier days.
CREATE FUNCTION assay_live_bounds(bounds uuid[]) RETURNS void LANGUAGE plpgsql AS $$
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
END $$;

CREATE FUNCTION assay_live_bounds() RETURNS uuid[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(SELECT b[1]::uuid FROM regexp_matches(pg_get_viewdef('live_jobs'::regclass), '''([0-9a-f-]{36})''', 'g') WITH ORDINALITY AS m (b, n) ORDER BY n);
END $$;

-- Programs of the previous version know only the oldest bound. Their views include all live days.
-- A migration that recreates the views calls assay_live_bounds(assay_live_bounds()).
CREATE OR REPLACE FUNCTION assay_live_since() RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT b FROM unnest(assay_live_bounds()) AS u (b) ORDER BY b LIMIT 1);
END $$;

-- assay_live_days counts the partitions of jobs in the live views, without the default partition.
CREATE FUNCTION assay_live_days() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    bounds uuid[] := assay_live_bounds();
    days   bigint;
BEGIN
    SELECT count(*) INTO days FROM (
        SELECT (lpad(to_hex((extract(epoch FROM to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid AS first
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'jobs'::regclass AND c.relname ~ '^jobs_[0-9]{8}$') d
    WHERE d.first >= bounds[1] OR EXISTS (SELECT FROM generate_series(2, cardinality(bounds), 2) AS n WHERE d.first >= bounds[n] AND d.first < bounds[n + 1]);
    RETURN days;
END $$;
