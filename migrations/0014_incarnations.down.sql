DROP TABLE blames;
ALTER TABLE workers DROP COLUMN rival_at;
ALTER TABLE workers DROP COLUMN rival_since;
ALTER TABLE workers DROP COLUMN took_over_at;
ALTER TABLE jobs DROP COLUMN worker_since;
