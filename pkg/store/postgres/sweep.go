package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
)

// reapMany does so where rows are small and nothing follows from them.
const reapMany = 5000

// drain has a statement delete what is older than age ($1) until it finds no more, $2 rows
// at a time.
func (s *Store) drain(ctx context.Context, op, sql string, age time.Duration) error {
	for {
		var n int64
		err := s.do(ctx, op, func(ctx context.Context) error {
			tag, err := s.pool.Exec(ctx, sql, age.Milliseconds(), reapMany)
			n = tag.RowsAffected()
			return err
		})
		if err != nil || n < reapMany {
			return err
		}
	}
}

func (s *Store) batchesWhere(ctx context.Context, sql string, args ...any) (ids []job.ID, err error) {
	err = s.do(ctx, "reap batches", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (job.ID, error) {
			var id pgtype.UUID
			err := row.Scan(&id)
			return jobID(id), err
		})
		return err
	})
	return ids, err
}
