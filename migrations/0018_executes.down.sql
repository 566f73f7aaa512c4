DROP INDEX executes_in_order;
ALTER TABLE executes DROP COLUMN seq;
ALTER TABLE sessions DROP COLUMN executed;
