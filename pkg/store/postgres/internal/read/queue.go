package read

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/store"
)

const (
	queueGroups  = 200  // pairs of class and tenant whose waiting jobs Queue counts
	queueCounted = 2000 // jobs of each that it counts one by one
)

// queued steps from one tenant of a class to the next, and counts the first waiting jobs of each. It reads one index,
// and at most as many entries as the limits allow.
var queued = fmt.Sprintf(`
WITH RECURSIVE heads AS (
	(SELECT pool, tenant_id FROM live_jobs WHERE state = 'queued' ORDER BY pool, tenant_id LIMIT 1)
	UNION ALL
	SELECT next.* FROM heads h, LATERAL (
		SELECT j.pool, j.tenant_id FROM live_jobs j WHERE j.state = 'queued' AND (j.pool, j.tenant_id) > (h.pool, h.tenant_id)
		ORDER BY j.pool, j.tenant_id LIMIT 1) next)
SELECT h.pool, t.name, q.priority, q.n, q.batched, greatest(extract(epoch FROM now() - age.first), 0)::float8
FROM (SELECT * FROM heads LIMIT %d) h JOIN tenants t ON t.id = h.tenant_id, LATERAL (
	SELECT priority, count(*) AS n, count(*) FILTER (WHERE batch_id <> '00000000-0000-0000-0000-000000000000') AS batched
	FROM (SELECT j.priority, j.batch_id FROM live_jobs j WHERE j.state = 'queued' AND j.pool = h.pool AND j.tenant_id = h.tenant_id
		ORDER BY j.tenant_id, j.batch_id, j.priority LIMIT %d) first
	GROUP BY priority) q, LATERAL (
	SELECT min(f.created_at) AS first FROM (VALUES (false), (true)) AS batch (of_one), LATERAL (
		SELECT j.created_at FROM live_jobs j WHERE j.state = 'queued' AND j.pool = h.pool AND j.tenant_id = h.tenant_id
			AND j.batch_id >= CASE WHEN of_one THEN '00000000-0000-0000-0000-000000000001' ELSE '00000000-0000-0000-0000-000000000000' END::uuid
		ORDER BY j.tenant_id, j.batch_id, j.priority LIMIT 1) f) age`, queueGroups, queueCounted)

// underway counts dispatched and running jobs, of which there are never more than the workers' slots and the windows.
const underway = `
SELECT j.pool, t.name, j.priority, coalesce(w.pool, ''), count(*) FILTER (WHERE j.state = 'dispatched'), count(*) FILTER (WHERE j.state = 'running'),
	count(*) FILTER (WHERE batch_id <> '00000000-0000-0000-0000-000000000000')
FROM (SELECT pool, tenant_id, priority, batch_id, state, '' AS worker FROM live_jobs WHERE state = 'dispatched'
	UNION ALL SELECT pool, tenant_id, priority, batch_id, state, worker FROM live_jobs WHERE state = 'running') j
	JOIN tenants t ON t.id = j.tenant_id LEFT JOIN workers w ON w.id = j.worker
GROUP BY 1, 2, 3, 4`

// outstanding is exact where the queue is too long to count: the jobs of a tenant's live batches without a record. The
// index of tenants' batches lacks the condition on sealed_at, so the plan finds batches by their ids.
const outstanding = `
SELECT t.name, sum(c.total - c.recorded)::bigint
FROM batch_counts c JOIN batches b ON b.id = c.batch_id JOIN tenants t ON t.id = b.tenant_id
WHERE c.ended_at IS NULL AND coalesce(b.sealed_at, 'infinity') < 'infinity' GROUP BY 1`

// queueCount collects the results of the three statements.
type queueCount struct {
	groups  map[queueKey]*store.QueueGroup
	batched map[string]int64 // by tenant: jobs of batches that were counted
	counted map[queueKey]int64
}

type queueKey struct {
	pool, tenant string
	priority     int
}

func (q *queueCount) at(k queueKey) *store.QueueGroup {
	g := q.groups[k]
	if g == nil {
		g = &store.QueueGroup{Pool: k.pool, Tenant: k.tenant, Priority: k.priority}
		q.groups[k] = g
	}
	return g
}

// Queue implements store.Scheduler.
func (s *Reader) Queue(ctx context.Context) (groups []store.QueueGroup, err error) {
	err = s.db.Do(ctx, "queue", func(ctx context.Context) error {
		b := &pgx.Batch{}
		b.Queue(queued)
		b.Queue(underway)
		b.Queue(outstanding)
		res := s.db.Pool.SendBatch(ctx, b)
		defer res.Close()
		q := &queueCount{groups: map[queueKey]*store.QueueGroup{}, batched: map[string]int64{}, counted: map[queueKey]int64{}}
		if err := q.read(res); err != nil {
			return err
		}
		groups = q.list()
		return res.Close()
	})
	return groups, err
}

func (q *queueCount) read(res pgx.BatchResults) error {
	var k queueKey
	var n, m, batched int64
	rows, err := res.Query()
	if err != nil {
		return err
	}
	var oldest float64
	if _, err = pgx.ForEachRow(rows, []any{&k.pool, &k.tenant, &k.priority, &n, &batched, &oldest}, func() error {
		g := q.at(k)
		g.Queued, g.OldestSeconds = n, oldest
		q.batched[k.tenant] += batched
		q.counted[queueKey{pool: k.pool, tenant: k.tenant}] += n
		return nil
	}); err != nil {
		return err
	}
	if rows, err = res.Query(); err != nil {
		return err
	}
	var in string
	if _, err = pgx.ForEachRow(rows, []any{&k.pool, &k.tenant, &k.priority, &in, &n, &m, &batched}, func() error {
		g := q.at(k)
		g.Dispatched, g.Running = g.Dispatched+n, g.Running+m
		if m > 0 && in != "" {
			if g.RunningIn == nil {
				g.RunningIn = map[string]int64{}
			}
			g.RunningIn[in] += m
		}
		q.batched[k.tenant] += batched
		return nil
	}); err != nil {
		return err
	}
	if rows, err = res.Query(); err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&k.tenant, &n}, func() error {
		q.correct(k.tenant, n-q.batched[k.tenant])
		return nil
	})
	return err
}

// correct adds the jobs of a tenant that were not counted to the largest of its groups
// that were not counted to the end: the tenant's sum is exact then.
func (q *queueCount) correct(tenant string, missing int64) {
	var largest *store.QueueGroup
	for k, g := range q.groups {
		if k.tenant != tenant || q.counted[queueKey{pool: k.pool, tenant: tenant}] < queueCounted {
			continue
		}
		g.AtLeast = true
		if largest == nil || g.Queued > largest.Queued {
			largest = g
		}
	}
	if largest != nil && missing > 0 {
		largest.Queued += missing
	}
}

// list returns the groups in the order of their names, the highest priority first.
func (q *queueCount) list() []store.QueueGroup {
	out := make([]store.QueueGroup, 0, len(q.groups))
	for _, g := range q.groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b store.QueueGroup) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(b.Priority, a.Priority))
	})
	return out
}
