ALTER TABLE workers DROP COLUMN quarantine;
ALTER TABLE workers DROP COLUMN quarantines;
ALTER TABLE workers DROP COLUMN quarantined_until;
