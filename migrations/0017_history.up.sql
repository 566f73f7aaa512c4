-- The end of deleted history. Jobs that ended before it and are not found were deleted. No
-- row: nothing was deleted yet.
CREATE TABLE history (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    since timestamptz NOT NULL
);

-- The ID of this fleet. Objects stored elsewhere carry it.
CREATE TABLE fleet (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id  uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO fleet DEFAULT VALUES;

-- assay_partition creates the partition of one table for one day, if it is missing, and
-- returns whether it did. It fills and attaches a new table. That waits for transactions
-- that use the default partition, and blocks later ones. Call it under a short
-- lock_timeout, one table in each transaction. If an id came from a clock that was days
-- off, the default partition has rows of the day. They move, unless there are too many.
CREATE FUNCTION assay_partition(parent text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
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

-- assay_partitions creates the missing partitions of the given number of days, and returns
-- how many it created.
CREATE OR REPLACE FUNCTION assay_partitions(first date, days integer) RETURNS integer LANGUAGE plpgsql AS $$
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
