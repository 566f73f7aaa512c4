DROP TABLE reports;
ALTER TABLE workers DROP COLUMN load;
