-- Batches that arrive in chunks. next_chunk is the number of the next chunk, and null for a batch of one request. It is in
-- the row that a seal or a drop changes, so that these are ordered before or after each chunk.
ALTER TABLE batches ADD COLUMN next_chunk bigint;
CREATE TABLE uploads (
    batch_id uuid PRIMARY KEY REFERENCES batches (id) ON DELETE CASCADE,
    defaults text
);
CREATE TABLE upload_chunks (
    batch_id uuid NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    n        bigint NOT NULL,
    digest   bytea NOT NULL CHECK (length(digest) = 32),
    jobs     bigint NOT NULL,
    PRIMARY KEY (batch_id, n)
);
-- The key with which all dispatchers sign (package token). The first dispatcher that needs it creates it.
ALTER TABLE fleet ADD COLUMN signing_key bytea CHECK (length(signing_key) >= 32);
