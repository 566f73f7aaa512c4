DROP TABLE executes;
DROP TABLE sessions;
