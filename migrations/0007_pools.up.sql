-- What a worker offers, as JSON: labels, images, sizes, isolation levels. It
-- decides which jobs are dispatched for it.
ALTER TABLE workers ADD COLUMN offer text;
