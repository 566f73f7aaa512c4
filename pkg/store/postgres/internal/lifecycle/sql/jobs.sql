-- jobs: more jobs that may run now, of one batch, priority and lane each, behind those that were read.
--
-- $1 class, $2 tenant, $3 batch, $4 priority, $5 lane, $6 the last job that was read, $7 jobs at most
SELECT g.nth, j.id, j.caps
FROM unnest($1::text[], $2::integer[], $3::uuid[], $4::integer[], $5::integer[], $6::uuid[], $7::bigint[]) WITH ORDINALITY
	AS g (pool, tenant_id, batch_id, priority, lane, after, most, nth), LATERAL (
	SELECT j.id, j.caps FROM live_jobs j
	WHERE j.state = 'queued' AND j.pool = g.pool AND j.tenant_id = g.tenant_id AND j.batch_id = g.batch_id AND j.priority = g.priority AND j.lane = g.lane
		AND j.id > g.after AND (j.not_before IS NULL OR j.not_before <= now()) AND (j.expires_at IS NULL OR j.expires_at > now())
	ORDER BY j.tenant_id, j.batch_id, j.priority, j.lane, j.id LIMIT g.most) j
