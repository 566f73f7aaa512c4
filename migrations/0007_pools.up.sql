-- The offer of a worker, as JSON: labels, images, sizes, isolation levels. The scheduler
-- dispatches only jobs that the offer meets.
ALTER TABLE workers ADD COLUMN offer text;
