-- walk: the tenants with queued jobs of each class $1, behind the tenant $2 of the class, at most $3 of
-- each. A row without a tenant says that there are no more.
SELECT p.nth, s.tenant_id
FROM unnest($1::text[], $2::integer[]) WITH ORDINALITY AS p (pool, after, nth), LATERAL (
	WITH RECURSIVE steps AS (
		SELECT p.after AS tenant_id
		UNION ALL
		SELECT next.tenant_id FROM steps s LEFT JOIN LATERAL (
			SELECT j.tenant_id FROM live_jobs j WHERE j.state = 'queued' AND j.pool = p.pool AND j.tenant_id > s.tenant_id
			ORDER BY j.tenant_id, -j.priority LIMIT 1) next ON true
		WHERE s.tenant_id IS NOT NULL)
	SELECT tenant_id FROM steps OFFSET 1 LIMIT $3::bigint) s
