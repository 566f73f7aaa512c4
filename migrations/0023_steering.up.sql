-- Pauses by operators. The workers of a paused pool take no jobs: see store.Workers.
ALTER TABLE tenants ADD COLUMN paused_at timestamptz;
ALTER TABLE tenants ADD COLUMN paused_by text NOT NULL DEFAULT '';
ALTER TABLE tenants ADD COLUMN pause text NOT NULL DEFAULT ''; -- the reason
ALTER TABLE batches ADD COLUMN paused_at timestamptz;
ALTER TABLE batches ADD COLUMN paused_by text NOT NULL DEFAULT '';
ALTER TABLE batches ADD COLUMN pause text NOT NULL DEFAULT '';
CREATE INDEX batches_paused ON batches (id) WHERE paused_at IS NOT NULL;
CREATE TABLE paused_pools (
    pool      text COLLATE "C" PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now(),
    paused_by text NOT NULL,
    pause     text NOT NULL
);

-- Temporary overrides by operators. weight, max_running and label_caps have the current
-- values; granted has the values to restore.
ALTER TABLE tenants ADD COLUMN override jsonb;
ALTER TABLE tenants ADD COLUMN override_until timestamptz; -- NULL: no end
ALTER TABLE tenants ADD COLUMN granted jsonb;
ALTER TABLE tenants ADD CONSTRAINT tenants_overridden CHECK ((override IS NULL) = (granted IS NULL)
    AND (override_until IS NULL OR override IS NOT NULL));
CREATE INDEX tenants_override_ends ON tenants (override_until) WHERE override_until IS NOT NULL;
