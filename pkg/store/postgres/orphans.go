package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/store"
)

// orphans are leases under which nothing runs, and which are not the one that
// the record is of. One snapshot: a job that ends meanwhile is seen in one of both.
const orphans = `
SELECT i.id, i.lease FROM unnest($2::uuid[], $3::bigint[]) AS i (id, lease)
WHERE NOT EXISTS (SELECT FROM live_jobs j WHERE j.id = i.id AND j.id >= $1 AND j.lease = i.lease AND j.state || '' = 'running')
	AND NOT EXISTS (SELECT FROM results r WHERE r.id = i.id AND r.id >= $1 AND r.lease = i.lease AND r.reason = '')`

// Orphans implements store.Scheduler.
func (s *Store) Orphans(ctx context.Context, leases []store.LeaseRef) (out []store.LeaseRef, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	ids, numbers, first := leaseArrays(leases)
	err = s.do(ctx, "find orphans", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, orphans, first, ids, numbers)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l store.LeaseRef, err error) {
			var id pgtype.UUID
			err = row.Scan(&id, &l.Lease)
			l.Job = jobID(id)
			return l, err
		})
		return err
	})
	return out, err
}

// Fleet implements store.Scheduler.
func (s *Store) Fleet(ctx context.Context) (id string, err error) {
	err = s.do(ctx, "read the fleet's name", func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, `SELECT id::text FROM fleet WHERE one`).Scan(&id)
	})
	return id, err
}
