UPDATE tenants SET weight = (granted ->> 'weight')::float8, max_running = (granted ->> 'max_running')::integer,
    label_caps = nullif(granted -> 'label_caps', 'null'::jsonb) WHERE granted IS NOT NULL;
DROP INDEX tenants_override_ends;
ALTER TABLE tenants DROP CONSTRAINT tenants_overridden;
ALTER TABLE tenants DROP COLUMN granted;
ALTER TABLE tenants DROP COLUMN override_until;
ALTER TABLE tenants DROP COLUMN override;
DROP TABLE paused_pools;
DROP INDEX batches_paused;
ALTER TABLE batches DROP COLUMN pause;
ALTER TABLE batches DROP COLUMN paused_by;
ALTER TABLE batches DROP COLUMN paused_at;
ALTER TABLE tenants DROP COLUMN pause;
ALTER TABLE tenants DROP COLUMN paused_by;
ALTER TABLE tenants DROP COLUMN paused_at;
