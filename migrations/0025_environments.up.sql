-- What workers say that they have built: the last word of each witness for a name of an
-- environment, and the worker that said it. Several workers may be one witness (package queue).
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
