-- Builds of environments that workers report: the last report of each witness for the name
-- of an environment, and its worker. Several workers may be one witness (package queue).
CREATE TABLE environments (
    name      text COLLATE "C" NOT NULL CHECK (name ~ '^[0-9a-f]{64}$'),
    pool      text COLLATE "C" NOT NULL,
    witness   text COLLATE "C" NOT NULL,
    worker    text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    stated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, pool, witness)
);
CREATE INDEX environments_witness ON environments (pool, witness, stated_at);
CREATE INDEX environments_age ON environments (stated_at);
