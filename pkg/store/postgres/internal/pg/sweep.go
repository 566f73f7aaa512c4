package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
)

// drainMany is the most rows that one statement of Drain deletes: they are small, and have no dependent rows.
const drainMany = 5000

// drainTime is how long one Drain takes: the rest is for the next.
const drainTime = time.Second

// Drain repeats a statement that deletes rows older than age ($1), LIMIT $2 OFFSET $3, until it finds no more or a
// second is over. It passes over rows that PostgreSQL refuses to delete.
func (db *DB) Drain(ctx context.Context, op, sql string, age time.Duration) error {
	return Chunks(drainMany, time.Now().Add(drainTime), func(c Chunk) (n int, err error) {
		err = db.Do(ctx, op, func(ctx context.Context) error {
			tag, err := db.Pool.Exec(ctx, sql, age.Milliseconds(), c.Limit, c.Offset)
			n = int(tag.RowsAffected())
			return err
		})
		return n, err
	}, func(_ Chunk, cause error) (bool, error) { return db.Refused(ctx, op, cause) })
}

// QueryBatches returns the batches for which a sweep has work.
func (db *DB) QueryBatches(ctx context.Context, sql string, args ...any) (ids []job.ID, err error) {
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
