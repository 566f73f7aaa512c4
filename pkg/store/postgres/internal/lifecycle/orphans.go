package lifecycle

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// orphans are leases under which nothing runs, and which are not the one that
// the record is of. What a session has exported is nobody's when it is forgotten. One snapshot: a job that ends meanwhile is seen in one of both.
const orphans = `
SELECT i.id, i.lease FROM unnest($2::uuid[], $3::bigint[]) AS i (id, lease)
WHERE NOT EXISTS (SELECT FROM live_jobs j WHERE j.id = i.id AND j.id >= $1 AND j.lease = i.lease AND j.state || '' = 'running')
	AND NOT EXISTS (SELECT FROM results r WHERE r.id = i.id AND r.id >= $1 AND r.lease = i.lease AND r.reason = '')
	AND NOT EXISTS (SELECT FROM sessions s WHERE s.id = i.id)`

// Orphans implements store.Scheduler.
func (s *Transitions) Orphans(ctx context.Context, leases []store.LeaseRef) (out []store.LeaseRef, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	ids, numbers, first := leaseArrays(leases)
	err = s.db.Do(ctx, "find orphans", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, orphans, first, ids, numbers)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l store.LeaseRef, err error) {
			var id pgtype.UUID
			err = row.Scan(&id, &l.Lease)
			l.Job = pg.JobID(id)
			return l, err
		})
		return err
	})
	return out, err
}

// inputs reads the specs of jobs that wait for long, and of those of retried batches. What
// only looks like the name of a blob counts as one: it costs room in the object store.
const inputs = `
WITH live AS (
	SELECT id, batch_id, tenant_id FROM live_jobs WHERE state = 'queued'
	UNION ALL SELECT id, batch_id, tenant_id FROM live_jobs WHERE state = 'dispatched'
	UNION ALL SELECT id, batch_id, tenant_id FROM live_jobs WHERE state = 'running')
SELECT DISTINCT t.name, m.found[1]
FROM live j JOIN live_specs s ON s.id = j.id JOIN tenants t ON t.id = j.tenant_id,
	regexp_matches(s.spec, 'sha256:[0-9a-f]{64}', 'g') AS m (found)
WHERE j.id < $1 OR EXISTS (SELECT FROM batches b WHERE b.id = j.batch_id AND b.retry_of IS NOT NULL)`

// Inputs implements store.Scheduler.
func (s *Transitions) Inputs(ctx context.Context, before time.Time) (out []store.Input, err error) {
	err = s.db.Do(ctx, "read inputs", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, inputs, pg.UUID(job.FirstIDAt(before)))
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[store.Input])
		return err
	})
	return out, err
}

// Fleet implements store.Scheduler.
func (s *Transitions) Fleet(ctx context.Context) (id string, err error) {
	err = s.db.Do(ctx, "read the fleet's name", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, `SELECT id::text FROM fleet WHERE one`).Scan(&id)
	})
	return id, err
}

func leaseArrays(leases []store.LeaseRef) (ids []pgtype.UUID, numbers []int64, first pgtype.UUID) {
	order, first := byID(len(leases), func(i int) job.ID { return leases[i].Job })
	for _, i := range order {
		ids = append(ids, pg.UUID(leases[i].Job))
		numbers = append(numbers, int64(leases[i].Lease))
	}
	return ids, numbers, first
}
