-- settings: what the scheduler reads of tenants.
SELECT t.id, t.weight, coalesce(t.max_running, 0), t.label_caps, t.paused_at IS NOT NULL
FROM unnest($1::integer[]) AS i (id) JOIN tenants t ON t.id = i.id
