-- If the default partition has many rows of a day, that day gets its partition in steps. Each step moves the next 20,000 rows
-- and extends the partition to their end. The other rows stay in the default partition until their step. Earlier versions
-- never created such a partition.

-- assay_first_id returns the first id of a day.
CREATE FUNCTION assay_first_id(day date) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM day::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- assay_partition_end returns the exclusive upper bound of a partition; NULL if the partition does not exist.
CREATE FUNCTION assay_partition_end(part text) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([0-9a-f-]{36})''\)'))[1]::uuid FROM pg_class c WHERE c.oid = to_regclass(part)
$$;

-- assay_partition creates the partition of one table for one day, or moves its end by one step towards the end of the day. It
-- returns whether it changed anything. It waits for transactions that use the default partition, and if the partition exists,
-- for those that use the table. Later transactions wait for it. Call it under a short lock_timeout, one table in each transaction.
CREATE OR REPLACE FUNCTION assay_partition(parent text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
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
END $$;
