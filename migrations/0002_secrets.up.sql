-- Secrets that tenants store for their jobs. The dispatcher encrypts sealed, bound to tenant
-- and name. The key is not in the database.
CREATE TABLE secrets (
    tenant_id  integer NOT NULL REFERENCES tenants,
    name       text COLLATE "C" NOT NULL,
    sealed     bytea NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name)
);
