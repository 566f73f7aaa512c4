-- API keys of people and programs. Only the hash of a token is stored.
CREATE TABLE keys (
    id           uuid PRIMARY KEY, -- grows with time; lists page by it
    tenant_id    int NOT NULL REFERENCES tenants (id),
    name         text NOT NULL,
    hash         bytea NOT NULL UNIQUE CONSTRAINT keys_hash CHECK (octet_length(hash) = 32),
    role         text COLLATE "C" NOT NULL CONSTRAINT keys_role CHECK (role IN ('reader', 'submitter', 'operator', 'admin')),
    label        text NOT NULL DEFAULT '', -- key=value
    policy       text COLLATE "C" NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    created_by   text NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    revoked_by   text NOT NULL DEFAULT '',
    last_used_at timestamptz
);
CREATE INDEX keys_tenant ON keys (tenant_id, id);
CREATE INDEX keys_live ON keys (tenant_id, expires_at) WHERE revoked_at IS NULL;

-- The number of changes of keys, raised in the transaction of each change. A dispatcher
-- that has read up to this number has all live keys. The row lock makes the numbers visible
-- in their order.
CREATE TABLE key_changes (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    n   bigint NOT NULL
);
INSERT INTO key_changes (n) VALUES (1);
