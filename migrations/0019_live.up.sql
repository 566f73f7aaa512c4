-- What the queue works on: the days from the first that has a job which is not over, and
-- yesterday at the latest. A view with the bound as a constant lets the server leave out
-- the days before it when it plans a statement; it then locks and opens none of them, and
-- kept history costs the queue nothing. Programs move the bound (store.Maintain).
--
-- A migration that takes a column away drops the views first, and calls
-- assay_live_since(assay_live_since()) at its end.
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
