-- The history of the database in which revocations and erasures were last reapplied.
ALTER TABLE lineage ADD COLUMN reapplied text;
UPDATE lineage SET reapplied = name;
