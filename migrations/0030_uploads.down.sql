ALTER TABLE fleet DROP COLUMN signing_key;
DROP TABLE upload_chunks;
DROP TABLE uploads;
ALTER TABLE batches DROP COLUMN next_chunk;
