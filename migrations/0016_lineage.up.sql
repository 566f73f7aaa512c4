-- Which history of the database its leases were issued in: of which cluster, on which
-- timeline (another one after each promotion and recovery to a point in time), from which
-- sequence (another one after a dump was restored).
CREATE TABLE lineage (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    name  text NOT NULL,
    since timestamptz NOT NULL DEFAULT now()
);
