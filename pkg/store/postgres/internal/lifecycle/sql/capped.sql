-- capped: how many jobs of some tenants with capped labels are dispatched or running, by batch and labels.
SELECT j.tenant_id, j.batch_id, j.caps, count(*)
FROM unnest($1::integer[]) AS t (id), live_jobs j
WHERE j.tenant_id = t.id AND j.lane > 0 AND j.state = ANY (ARRAY['dispatched', 'running'])
GROUP BY j.tenant_id, j.batch_id, j.caps
