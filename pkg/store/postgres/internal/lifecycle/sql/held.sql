-- held: the jobs that are dispatched or running, by batch, and of these the ones that hold places of
-- the window: dispatched, of the classes $1. If they fill the window $2, the running ones are
-- left out: there is nothing to decide. No job that was dispatched before $3 is counted; the last column
-- is the oldest dispatch of the batch.
WITH dispatched AS MATERIALIZED (
	SELECT tenant_id, batch_id, pool = ANY ($1::text[]) AS waits, dispatched_at FROM live_jobs WHERE upper(state) = 'DISPATCHED' AND dispatched_at >= $3),
full_window AS MATERIALIZED (SELECT count(*) FILTER (WHERE waits) >= $2::bigint AS yes FROM dispatched)
SELECT tenant_id, batch_id, count(*), count(*) FILTER (WHERE waits), min(dispatched_at)
FROM (SELECT * FROM dispatched
	UNION ALL SELECT tenant_id, batch_id, false, dispatched_at FROM live_jobs
	WHERE upper(state) = 'RUNNING' AND dispatched_at >= $3 AND NOT (SELECT yes FROM full_window)) j
GROUP BY tenant_id, batch_id
