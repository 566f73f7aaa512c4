-- The earliest time of the next attempt after an infrastructure failure; NULL: at once.
-- It is set when the job returns to the queue. It has no index, because few jobs wait.
ALTER TABLE jobs ADD COLUMN not_before timestamptz;
