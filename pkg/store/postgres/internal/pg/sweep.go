package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
)

// drainMany is how many rows one statement of Drain deletes: they are small, and nothing
// follows from them.
const drainMany = 5000

// Drain has a statement delete what is older than age ($1) until it finds no more, $2 rows
// at a time.
func (db *DB) Drain(ctx context.Context, op, sql string, age time.Duration) error {
	for {
		var n int64
		err := db.Do(ctx, op, func(ctx context.Context) error {
			tag, err := db.Pool.Exec(ctx, sql, age.Milliseconds(), drainMany)
			n = tag.RowsAffected()
			return err
		})
		if err != nil || n < drainMany {
			return err
		}
	}
}

// BatchesWhere returns the batches of which a sweep finds that something is to be done.
func (db *DB) BatchesWhere(ctx context.Context, sql string, args ...any) (ids []job.ID, err error) {
	err = db.Do(ctx, "reap batches", func(ctx context.Context) error {
		rows, err := db.Pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (job.ID, error) {
			var id pgtype.UUID
			err := row.Scan(&id)
			return JobID(id), err
		})
		return err
	})
	return ids, err
}
