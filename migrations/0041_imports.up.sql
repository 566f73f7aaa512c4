-- Tenants that were imported from another fleet. The rows of an unfinished import belong to a tenant named import:ID, which
-- gets its name when the import ends. The sum of rows changes with each import of history: retention compares it.
CREATE TABLE imports (
    id          uuid PRIMARY KEY, -- of the export
    fleet       text NOT NULL,    -- the source of the export
    tenant      text COLLATE "C" NOT NULL,
    tenant_id   integer NOT NULL REFERENCES tenants (id),
    rows        bigint NOT NULL DEFAULT 0,
    started_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);
