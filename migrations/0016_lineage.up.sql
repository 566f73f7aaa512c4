-- The history of the database in which its leases were issued: the cluster, the timeline
-- (a promotion or point-in-time recovery starts another), and the sequence (restoring a
-- dump starts another).
CREATE TABLE lineage (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    name  text NOT NULL,
    since timestamptz NOT NULL DEFAULT now()
);
