-- Views of the days that the queue uses: from the first day with an unfinished job, or
-- from yesterday if that is earlier. The bound is a constant, so the planner excludes
-- earlier days and neither locks nor opens them. History then costs the queue nothing.
-- Programs move the bound (store.Maintain).
--
-- A migration that drops a column first drops the views, and at its end calls
-- assay_live_since(assay_live_since()).
CREATE FUNCTION assay_live_since(since uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['jobs', 'specs', 'attempts', 'results'] LOOP
        EXECUTE format('CREATE OR REPLACE VIEW %I AS SELECT * FROM %I WHERE %I >= %L::uuid', 'live_' || parent, parent,
            CASE parent WHEN 'attempts' THEN 'job_id' ELSE 'id' END, since);
    END LOOP;
END $$;

CREATE FUNCTION assay_live_since() RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
    RETURN substring(pg_get_viewdef('live_jobs'::regclass) FROM '''([0-9a-f-]{36})''')::uuid;
END $$;

SELECT assay_live_since('00000000-0000-0000-0000-000000000000');
