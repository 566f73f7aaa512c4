-- Live sessions by tenant. Lists and counts of them skip ended sessions, of which history has far more.
CREATE INDEX sessions_tenant_live ON sessions (tenant_id, id) WHERE state = 'live';
