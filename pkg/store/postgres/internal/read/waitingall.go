package read

// waitingOfAll is waiting for all tenants. It steps from one tenant of a class to the next, and counts the single jobs of each up to a limit.
const waitingOfAll = `
WITH RECURSIVE heads AS (
	(SELECT pool, tenant_id FROM live_jobs WHERE state = 'queued' ORDER BY pool, tenant_id LIMIT 1)
	UNION ALL
	SELECT next.* FROM heads h, LATERAL (
		SELECT j.pool, j.tenant_id FROM live_jobs j WHERE j.state = 'queued' AND (j.pool, j.tenant_id) > (h.pool, h.tenant_id)
		ORDER BY j.pool, j.tenant_id LIMIT 1) next)
SELECT live.jobs + open.jobs + (SELECT count(*) FROM heads h, LATERAL (SELECT FROM live_jobs j WHERE j.state = 'queued' AND j.pool = h.pool
		AND j.tenant_id = h.tenant_id AND j.batch_id = '00000000-0000-0000-0000-000000000000'
		ORDER BY j.tenant_id, j.batch_id, j.priority LIMIT 10000) q),
	live.batches + open.batches
FROM (SELECT coalesce(sum(total - recorded), 0)::bigint AS jobs, count(*) AS batches FROM batch_counts WHERE ended_at IS NULL) live,
	(SELECT coalesce(sum(appended), 0)::bigint AS jobs, count(*) AS batches FROM batches WHERE sealed_at IS NULL AND dropped_at IS NULL) open`
