-- lanes: the first job that may run now of each lane of some batches with capped labels. A lane is
-- one combination of capped values.
--
-- It begins with any lane, goes around once, and ends after some lanes. With one capped label
-- that is past all that are full; with several, of which one value can fill any number of lanes, a
-- lane with room is met within as many looks as it takes to go past those.
--
-- $1 class, $2 tenant, $3 batch, $4 priority, $5 the lane to begin behind, $6 lanes at most
SELECT g.nth, l.lane, l.id, l.caps
FROM unnest($1::text[], $2::integer[], $3::uuid[], $4::integer[], $5::integer[], $6::bigint[]) WITH ORDINALITY
	AS g (pool, tenant_id, batch_id, priority, start, most, nth), LATERAL (
	WITH RECURSIVE lanes AS (
		SELECT g.start AS lane, 2147483647 AS upto, NULL::uuid AS id, NULL AS caps
		UNION ALL
		SELECT coalesce(next.lane, 0), CASE WHEN next.lane IS NULL THEN g.start ELSE l.upto END, next.id, next.caps
		FROM lanes l LEFT JOIN LATERAL (
			SELECT j.lane, j.id, j.caps FROM live_jobs j
			WHERE j.state = 'queued' AND j.pool = g.pool AND j.tenant_id = g.tenant_id AND j.batch_id = g.batch_id AND j.priority = g.priority
				AND j.lane > l.lane AND j.lane <= l.upto
				AND (j.not_before IS NULL OR j.not_before <= now()) AND (j.expires_at IS NULL OR j.expires_at > now())
			ORDER BY j.tenant_id, j.batch_id, j.priority, j.lane, j.id LIMIT 1) next ON true
		WHERE next.lane IS NOT NULL OR l.upto = 2147483647)
	SELECT lane, id, caps FROM lanes WHERE id IS NOT NULL LIMIT g.most) l
