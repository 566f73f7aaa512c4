package read

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/store"
)

// poolStats counts the queue of each pool one by one up to a limit. For the oldest job it reads two
// jobs of each tenant: the first one without a batch, and the first one of the oldest batch. Each is
// of the lowest priority, which waits longest.
var poolStats = QueuedPools + fmt.Sprintf(`,
named AS (
	SELECT pool FROM pools WHERE pool IS NOT NULL
	UNION SELECT pool FROM live_jobs WHERE state = 'dispatched' UNION SELECT pool FROM live_jobs WHERE state = 'running')
SELECT n.pool,
	(SELECT count(*) FROM (SELECT FROM live_jobs j WHERE j.state = 'queued' AND j.pool = n.pool
		ORDER BY j.tenant_id, j.batch_id, j.priority LIMIT %d) q),
	(SELECT count(*) FROM live_jobs j WHERE j.state = 'dispatched' AND j.pool = n.pool),
	(SELECT count(*) FROM live_jobs j WHERE j.state = 'running' AND j.pool = n.pool),
	coalesce(1000 * extract(epoch FROM now() - (
		WITH RECURSIVE heads AS (
			(SELECT tenant_id, batch_id, created_at FROM live_jobs
			WHERE state = 'queued' AND pool = n.pool ORDER BY tenant_id, batch_id, priority, lane, id LIMIT 1)
			UNION ALL
			SELECT next.* FROM heads h, LATERAL (
				SELECT j.tenant_id, j.batch_id, j.created_at FROM live_jobs j
				WHERE j.state = 'queued' AND j.pool = n.pool AND (j.tenant_id, j.batch_id) > (h.tenant_id, CASE
					WHEN h.batch_id = '00000000-0000-0000-0000-000000000000' THEN h.batch_id ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff' END)
				ORDER BY j.tenant_id, j.batch_id, j.priority, j.lane, j.id LIMIT 1) next)
		SELECT min(created_at) FROM heads)), 0)::bigint
FROM named n`, store.StatsCap)

// runningIn counts running jobs by the pool of their worker.
const runningIn = `
SELECT w.pool, sum(r.n)::bigint
FROM (SELECT worker, count(*) AS n FROM live_jobs WHERE state = 'running' GROUP BY worker) r JOIN workers w ON w.id = r.worker
GROUP BY 1`

// queuedInBatches is exact for the queues that are too long to count: the jobs of live batches without a record, minus
// the dispatched and running ones.
const queuedInBatches = `
SELECT coalesce(sum(c.total - c.recorded), 0)::bigint
	- (SELECT count(*) FROM live_jobs WHERE state = 'dispatched' AND batch_id <> '00000000-0000-0000-0000-000000000000')
	- (SELECT count(*) FROM live_jobs WHERE state = 'running' AND batch_id <> '00000000-0000-0000-0000-000000000000')
FROM batch_counts c WHERE c.ended_at IS NULL`

// upkeep counts objects that pile up when maintenance is late.
var upkeep = fmt.Sprintf(`
SELECT coalesce(1000 * extract(epoch FROM now() - (SELECT min(dispatched_at) FROM live_jobs WHERE state = 'dispatched')), 0)::bigint,
	(SELECT count(*) FROM (SELECT FROM callbacks WHERE delivered_at IS NULL AND given_up_at IS NULL LIMIT %[1]d) c),
	(SELECT count(*) FROM (SELECT FROM jobs_default LIMIT %[1]d) d),
	(SELECT count(*) FROM pg_inherits WHERE inhparent = 'jobs'::regclass),
	assay_live_days(),
	coalesce(1000 * extract(epoch FROM now() - (
		SELECT min(xact_start) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND datname = current_database())), 0)::bigint`, store.StatsCap)

// waiting goes through the live batches of all tenants, which are fewer than all batches that a tenant ever had (the
// condition on sealed_at is as in outstanding), and through the tenant's own waiting jobs in each class. OFFSET keeps
// the planner from joining the classes to the whole queue.
const waiting = QueuedPools + `
SELECT live.jobs + (SELECT count(*) FROM pools p, LATERAL (SELECT FROM live_jobs j WHERE j.state = 'queued' AND j.pool = p.pool
		AND j.tenant_id = $1 AND j.batch_id = '00000000-0000-0000-0000-000000000000'
		ORDER BY j.tenant_id, j.batch_id, j.priority OFFSET 0) q)
	+ (SELECT coalesce(sum(b.appended), 0)::bigint FROM batches b WHERE b.sealed_at IS NULL AND b.dropped_at IS NULL AND b.tenant_id = $1),
	live.batches + (SELECT count(*) FROM batches b WHERE b.sealed_at IS NULL AND b.dropped_at IS NULL AND b.tenant_id = $1)
FROM (SELECT coalesce(sum(c.total - c.recorded), 0)::bigint AS jobs, count(*) AS batches
	FROM batch_counts c JOIN batches b ON b.id = c.batch_id
	WHERE c.ended_at IS NULL AND b.tenant_id = $1 AND coalesce(b.sealed_at, 'infinity') < 'infinity') live`

// Waiting implements store.Scheduler.
func (s *Reader) Waiting(ctx context.Context, tenant string) (jobs, batches int64, err error) {
	err = s.db.Do(ctx, "count a tenant's jobs", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		if t == 0 {
			return s.db.Pool.QueryRow(ctx, waitingOfAll).Scan(&jobs, &batches)
		}
		return s.db.Pool.QueryRow(ctx, waiting, t).Scan(&jobs, &batches)
	})
	return jobs, batches, err
}

// Stats implements store.Scheduler.
func (s *Reader) Stats(ctx context.Context) (st store.Stats, err error) {
	err = s.db.Do(ctx, "stats", func(ctx context.Context) error {
		st = store.Stats{Pools: map[string]store.PoolStats{}, RunningIn: map[string]int64{}}
		b := &pgx.Batch{}
		b.Queue(poolStats)
		b.Queue(runningIn)
		b.Queue(queuedInBatches)
		b.Queue(upkeep)
		res := s.db.Pool.SendBatch(ctx, b)
		defer res.Close()
		rows, err := res.Query()
		if err != nil {
			return err
		}
		var name string
		var p store.PoolStats
		var oldestMS int64
		_, err = pgx.ForEachRow(rows, []any{&name, &p.Queued, &p.Dispatched, &p.Running, &oldestMS}, func() error {
			p.OldestQueued = time.Duration(oldestMS) * time.Millisecond
			st.Pools[name] = p
			st.Queued, st.Dispatched, st.Running = st.Queued+p.Queued, st.Dispatched+p.Dispatched, st.Running+p.Running
			st.OldestQueued = max(st.OldestQueued, p.OldestQueued)
			return nil
		})
		if err != nil {
			return err
		}
		if rows, err = res.Query(); err != nil {
			return err
		}
		var running, inBatches int64
		_, err = pgx.ForEachRow(rows, []any{&name, &running}, func() error {
			st.RunningIn[name] = running
			return nil
		})
		if err != nil {
			return err
		}
		if err := res.QueryRow().Scan(&inBatches); err != nil {
			return err
		}
		st.Queued = max(st.Queued, inBatches)
		var dispatchedMS, transactionMS int64
		if err := res.QueryRow().Scan(&dispatchedMS, &st.Callbacks, &st.Undated, &st.Days, &st.LiveDays, &transactionMS); err != nil {
			return err
		}
		st.OldestDispatched = time.Duration(dispatchedMS) * time.Millisecond
		st.OldestTransaction = time.Duration(transactionMS) * time.Millisecond
		return res.Close()
	})
	return st, err
}
