-- A batch that comes in chunks: next_chunk is the number of the one that is due, and null of a batch that came in one
-- request. It stands in the row that a seal and a drop change, too, so that each of them is before or after a chunk.
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
-- What every dispatcher signs with (package token). The first that needs it makes it.
ALTER TABLE fleet ADD COLUMN signing_key bytea CHECK (length(signing_key) >= 32);
