CREATE OR REPLACE FUNCTION assay_partitions(first date, days integer) RETURNS integer LANGUAGE plpgsql AS $$
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
DROP FUNCTION assay_partition(text, date);
DROP TABLE fleet;
DROP TABLE history;
