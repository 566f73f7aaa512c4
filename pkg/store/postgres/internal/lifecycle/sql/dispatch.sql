-- dispatch: moves the picked jobs $1, of which $3 are the places, to the next generation. $2 is the smallest of
-- the ids. The guard leaves out jobs that another statement has moved since.
UPDATE live_jobs j SET state = 'dispatched', dispatch_gen = j.dispatch_gen + 1, dispatched_at = now(), published_at = now()
FROM unnest($1::uuid[], $3::bigint[]) AS p (id, place)
WHERE j.id = p.id AND j.id >= $2 AND j.state || '' = 'queued' AND NOT j.cancel_requested
RETURNING j.id, j.dispatch_gen, coalesce(j.traceparent, ''), j.cache_key IS NOT NULL, j.pool, j.batch_id,
	CASE WHEN j.traceparent IS NULL THEN '' ELSE (SELECT t.name FROM tenants t WHERE t.id = j.tenant_id) END, p.place
