-- In which history of the database revocations and erasures were last made again.
ALTER TABLE lineage ADD COLUMN reapplied text;
UPDATE lineage SET reapplied = name;
