package lifecycle

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// orphans are the leases of jobs of one day that are neither running nor in a record. The exports of a session are
// orphans when the session is removed. It is one snapshot, which sees a job that ends meanwhile either running or
// recorded.
func orphans(day pg.Days) string {
	return `
SELECT i.id, i.lease FROM unnest($1::uuid[], $2::bigint[]) AS i (id, lease)
WHERE NOT EXISTS (SELECT FROM live_jobs j WHERE j.id = i.id AND ` + day.In("j.id") + ` AND j.lease = i.lease AND j.state || '' = 'running' OFFSET 0)
	AND NOT EXISTS (SELECT FROM results r WHERE r.id = i.id AND ` + day.In("r.id") + ` AND r.lease = i.lease AND r.reason = '' OFFSET 0)
	AND NOT EXISTS (SELECT FROM set_aside a WHERE a.job_id = i.id AND a.lease = i.lease)
	AND NOT EXISTS (SELECT FROM sessions s WHERE s.id = i.id)`
}

// Orphans implements store.Scheduler.
func (s *Transitions) Orphans(ctx context.Context, leases []store.LeaseRef) (out []store.LeaseRef, err error) {
	days, of := pg.ByDay(leases, func(l store.LeaseRef) job.ID { return l.Job })
	for _, day := range days {
		ids, numbers := leaseArrays(of[day])
		err := s.db.Do(ctx, "find orphans", func(ctx context.Context) error {
			rows, err := s.db.Pool.Query(ctx, orphans(day), ids, numbers)
			if err != nil {
				return err
			}
			found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l store.LeaseRef, err error) {
				var id pgtype.UUID
				err = row.Scan(&id, &l.Lease)
				l.Job = pg.JobID(id)
				return l, err
			})
			out = append(out, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Fleet implements store.Scheduler.
func (s *Transitions) Fleet(ctx context.Context) (id string, err error) {
	err = s.db.Do(ctx, "read the fleet's name", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, `SELECT id::text FROM fleet WHERE one`).Scan(&id)
	})
	return id, err
}

func leaseArrays(leases []store.LeaseRef) (ids []pgtype.UUID, numbers []int64) {
	for _, l := range leases {
		ids = append(ids, pg.UUID(l.Job))
		numbers = append(numbers, int64(l.Lease))
	}
	return ids, numbers
}
