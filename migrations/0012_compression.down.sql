CREATE OR REPLACE FUNCTION assay_tune(parent text, part text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF parent = 'jobs' THEN
        EXECUTE format('ALTER TABLE %I SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02,
            autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
            autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_analyze_scale_factor = 0.2)', part);
    END IF;
END $$;

DO $$
DECLARE
    p record;
BEGIN
    FOR p IN
        SELECT inhrelid::regclass AS part, CASE inhparent WHEN 'specs'::regclass THEN 'spec' ELSE 'body' END AS col
        FROM pg_inherits WHERE inhparent IN ('specs'::regclass, 'attempts'::regclass, 'results'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET COMPRESSION default', p.part, p.col);
    END LOOP;
END $$;
