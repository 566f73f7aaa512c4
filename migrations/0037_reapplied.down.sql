ALTER TABLE lineage DROP COLUMN reapplied;
