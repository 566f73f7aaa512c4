DROP TABLE key_changes;
DROP TABLE keys;
