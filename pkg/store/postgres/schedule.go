package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/store"
)

// schedule releases up to what is left of the window $2 of pool $1, fairly:
//
//   - groups steps through the queue's index, from one (tenant, batch, priority)
//     to the next: the cost is that of the groups, not of the queue.
//   - held counts what every tenant and batch already occupies, from rows: there
//     is no counter that a crash could leave wrong.
//   - Each candidate's virtual time is its place in its batch, counted from what
//     the batch already holds, divided by 2^priority: batches of a tenant take
//     turns, a point of priority is worth a double share.
//   - Waiting for $3 milliseconds is worth a point of priority, up to the highest
//     that the tenant has queued, so that no stream of urgent jobs starves the
//     others. Beyond it age would let an old flood starve what came later.
//   - What waits after a failure of ours is stepped over until its time has come.
//   - Tenants take turns in the same way, by their weight, within max_running.
//
// The guard on state makes it safe beside any other statement; the advisory lock
// taken before (in the same round trip) makes several schedulers share one window.
const schedule = `
WITH RECURSIVE budget AS (
	SELECT greatest($2::bigint - (SELECT count(*) FROM jobs WHERE state = 'dispatched' AND pool = $1), 0) AS n),
groups AS (
	(SELECT tenant_id, batch_id, priority FROM jobs
	WHERE state = 'queued' AND pool = $1 AND (SELECT n FROM budget) > 0 ORDER BY tenant_id, batch_id, priority LIMIT 1)
	UNION ALL
	SELECT next.* FROM groups g, LATERAL (
		SELECT j.tenant_id, j.batch_id, j.priority FROM jobs j
		WHERE j.state = 'queued' AND j.pool = $1 AND (j.tenant_id, j.batch_id, j.priority) > (g.tenant_id, g.batch_id, g.priority)
		ORDER BY j.tenant_id, j.batch_id, j.priority LIMIT 1) next),
held AS MATERIALIZED (
	SELECT tenant_id, batch_id, count(*) AS n FROM (
		SELECT tenant_id, batch_id FROM jobs WHERE state = 'dispatched' AND (SELECT n FROM budget) > 0
		UNION ALL SELECT tenant_id, batch_id FROM jobs WHERE state = 'running' AND (SELECT n FROM budget) > 0) live
	GROUP BY tenant_id, batch_id),
ready AS MATERIALIZED (
	SELECT g.*, t.weight, t.max_running, max(g.priority) OVER (PARTITION BY g.tenant_id) AS top,
		coalesce((SELECT n FROM held h WHERE h.tenant_id = g.tenant_id AND h.batch_id = g.batch_id), 0) AS batch_held,
		coalesce((SELECT sum(n) FROM held h WHERE h.tenant_id = g.tenant_id), 0) AS tenant_held
	FROM groups g JOIN tenants t ON t.id = g.tenant_id
	WHERE g.batch_id = '00000000-0000-0000-0000-000000000000'
		OR EXISTS (SELECT FROM batches b WHERE b.id = g.batch_id AND b.tenant_id = g.tenant_id AND b.sealed_at IS NOT NULL AND NOT b.cancel_requested)),
candidates AS (
	SELECT c.id, r.tenant_id, r.weight, r.max_running, r.tenant_held,
		(r.batch_held + row_number() OVER (PARTITION BY r.tenant_id, r.batch_id, r.priority ORDER BY c.id))
			/ 2::float8 ^ greatest(least(r.priority + c.aged, r.top) - r.top, -50) AS turn
	FROM ready r, LATERAL (
		SELECT j.id, floor(greatest(date_part('epoch', now() - j.created_at), 0) * 1000 / $3::bigint) AS aged FROM jobs j
		WHERE j.state = 'queued' AND j.pool = $1 AND j.tenant_id = r.tenant_id AND j.batch_id = r.batch_id AND j.priority = r.priority
			AND (j.not_before IS NULL OR j.not_before <= now())
		ORDER BY j.tenant_id, j.batch_id, j.priority, j.id LIMIT (SELECT n FROM budget)) c),
ranked AS (
	SELECT id, weight, max_running, tenant_held + row_number() OVER (PARTITION BY tenant_id ORDER BY turn, id) AS place
	FROM candidates),
picked AS MATERIALIZED (
	SELECT id, row_number() OVER (ORDER BY place / weight, id) AS ord FROM ranked
	WHERE max_running IS NULL OR place <= max_running
	ORDER BY place / weight, id LIMIT (SELECT n FROM budget)),
moved AS (
	UPDATE jobs j SET state = 'dispatched', dispatch_gen = j.dispatch_gen + 1, dispatched_at = now(), published_at = now()
	FROM picked p WHERE j.id = p.id AND j.state || '' = 'queued' AND NOT j.cancel_requested
	RETURNING j.id, j.dispatch_gen, j.traceparent, p.ord)
SELECT id, dispatch_gen, coalesce(traceparent, '') FROM moved ORDER BY ord`

// Schedule implements store.Scheduler.
func (s *Store) Schedule(ctx context.Context, pool string, window int) (ds []store.Dispatch, err error) {
	err = s.do(ctx, "schedule", func(ctx context.Context) error {
		// One round trip and one transaction, but two snapshots: the second
		// statement sees what the holder of the lock before us has committed.
		b := &pgx.Batch{}
		b.Queue(`SELECT pg_advisory_xact_lock(hashtextextended('assay schedule ' || $1, 0))`, pool)
		b.Queue(schedule, pool, window, s.cfg.AgeEvery.Milliseconds())
		res := s.pool.SendBatch(ctx, b)
		defer res.Close()
		if _, err := res.Exec(); err != nil {
			return err
		}
		rows, err := res.Query()
		if err != nil {
			return err
		}
		if ds, err = collectDispatches(rows, pool); err != nil {
			return err
		}
		return res.Close() // the commit
	})
	return ds, err
}

func collectDispatches(rows pgx.Rows, pool string) ([]store.Dispatch, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Dispatch, error) {
		var id pgtype.UUID
		d := store.Dispatch{Pool: pool}
		err := row.Scan(&id, &d.Generation, &d.TraceParent)
		d.Job = jobID(id)
		return d, err
	})
}

// unclaimed finds its rows through the index on dispatched ones, of which there
// are never more than the windows.
const unclaimed = `
UPDATE jobs j SET published_at = now()
FROM (SELECT id FROM jobs WHERE state = 'dispatched' AND published_at < now() - $1 * interval '1 millisecond'
	ORDER BY published_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) p
WHERE j.id = p.id AND j.state || '' = 'dispatched'
RETURNING j.id, j.dispatch_gen, coalesce(j.traceparent, ''), j.pool`

// Unclaimed implements store.Scheduler.
func (s *Store) Unclaimed(ctx context.Context, olderThan time.Duration, n int) (ds []store.Dispatch, err error) {
	err = s.do(ctx, "unclaimed", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, unclaimed, olderThan.Milliseconds(), n)
		if err != nil {
			return err
		}
		ds, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Dispatch, error) {
			var id pgtype.UUID
			var d store.Dispatch
			err := row.Scan(&id, &d.Generation, &d.TraceParent, &d.Pool)
			d.Job = jobID(id)
			return d, err
		})
		return err
	})
	return ds, err
}
