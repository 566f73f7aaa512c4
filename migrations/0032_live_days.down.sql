SELECT assay_live_since(assay_live_since());
CREATE OR REPLACE FUNCTION assay_live_since() RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
    RETURN substring(pg_get_viewdef('live_jobs'::regclass) FROM '''([0-9a-f-]{36})''')::uuid;
END $$;
DROP FUNCTION assay_live_bounds();
DROP FUNCTION assay_live_bounds(uuid[]);
DROP FUNCTION assay_live_days();
