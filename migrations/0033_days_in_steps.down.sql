CREATE OR REPLACE FUNCTION assay_partition(parent text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    part text := parent || to_char(day, '_YYYYMMDD');
    rest text := parent || '_default';
    key  text := CASE parent WHEN 'attempts' THEN 'job_id' ELSE 'id' END;
    lo   uuid := (lpad(to_hex((extract(epoch FROM day::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
    hi   uuid := (lpad(to_hex((extract(epoch FROM (day + 1)::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
    n    bigint;
BEGIN
    IF to_regclass(part) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', rest);
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %I WHERE %I >= $1 AND %2$I < $2 LIMIT 10001) r', rest, key) INTO n USING lo, hi;
    IF n > 10000 THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)', part, parent);
    PERFORM assay_tune(parent, part);
    IF n > 0 THEN
        EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I >= $1 AND %2$I < $2 RETURNING *) INSERT INTO %I SELECT * FROM moved',
            rest, key, part) USING lo, hi;
    END IF;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, lo, hi);
    RETURN true;
END $$;
DROP FUNCTION assay_partition_end(text);
DROP FUNCTION assay_first_id(date);
