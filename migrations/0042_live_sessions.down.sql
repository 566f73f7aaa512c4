DROP INDEX sessions_tenant_live;
