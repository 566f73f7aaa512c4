-- The live sessions of a tenant are listed and counted without its ended ones, of which history keeps far more.
CREATE INDEX sessions_tenant_live ON sessions (tenant_id, id) WHERE state = 'live';
