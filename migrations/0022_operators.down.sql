ALTER TABLE leaders DROP COLUMN since;
ALTER TABLE workers DROP COLUMN cordon;
ALTER TABLE workers DROP COLUMN cordoned_by;
ALTER TABLE workers DROP COLUMN cordoned_at;
DROP TABLE operator_actions;
