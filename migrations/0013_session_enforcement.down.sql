ALTER TABLE sessions DROP COLUMN enforcement;
