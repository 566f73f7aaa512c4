package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// partitions of whole days that are over, oldest first.
const oldDays = `SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
	WHERE i.inhparent = 'jobs'::regclass AND c.relname ~ '^jobs_[0-9]{8}$'
	AND to_date(right(c.relname, 8), 'YYYYMMDD') < (now() AT TIME ZONE 'UTC' - $1 * interval '1 millisecond')::date
	ORDER BY 1`

// Forget implements store.Scheduler.
func (s *Store) Forget(ctx context.Context, age time.Duration) (days int, err error) {
	rows, err := s.pool.Query(ctx, oldDays, age.Milliseconds())
	if err != nil {
		return 0, translate("forget", err)
	}
	old, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return 0, translate("forget", err)
	}
	for _, day := range old {
		dropped, err := s.dropDay(ctx, day)
		if err != nil {
			return days, fmt.Errorf("forget %s: %w", day.Format(time.DateOnly), err)
		}
		if dropped {
			days++
		}
	}
	return days, s.forgetRest(ctx, age)
}

// dropDay drops the partitions of one day, unless one of its jobs still has to
// run or runs.
func (s *Store) dropDay(ctx context.Context, day time.Time) (dropped bool, err error) {
	suffix := day.Format("_20060102")
	err = s.do(ctx, "drop a day", func(ctx context.Context) error {
		dropped = false
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			// Dropping waits for readers of the table, and new readers wait behind it:
			// rather try again later.
			for _, sql := range []string{`SET LOCAL lock_timeout = '2s'`, maintainLock, `LOCK TABLE jobs` + suffix + ` IN ACCESS EXCLUSIVE MODE`} {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			var live bool
			err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM jobs`+suffix+` WHERE state NOT IN ('finished', 'canceled'))`).Scan(&live)
			if err != nil || live {
				return err
			}
			dropped = true
			_, err = tx.Exec(ctx, `DROP TABLE IF EXISTS jobs`+suffix+`, specs`+suffix+`, attempts`+suffix+`, results`+suffix)
			return err
		})
	})
	return dropped, err
}

// forgetRest deletes what is not kept by days: sessions that have ended, with
// their executes, and batches of which no member is left.
func (s *Store) forgetRest(ctx context.Context, age time.Duration) error {
	const oldest = `coalesce((SELECT min(to_date(right(c.relname, 8), 'YYYYMMDD')) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'jobs'::regclass AND c.relname ~ '^jobs_[0-9]{8}$'), '-infinity')`
	return s.do(ctx, "forget the rest", func(ctx context.Context) error {
		b := &pgx.Batch{}
		b.Queue(`DELETE FROM sessions WHERE ended_at < now() - $1 * interval '1 millisecond'`, age.Milliseconds())
		b.Queue(`WITH gone AS (
			DELETE FROM batches b WHERE b.appended_at < now() - $1 * interval '1 millisecond' AND b.appended_at AT TIME ZONE 'UTC' < `+oldest+`
			AND NOT EXISTS (SELECT FROM jobs_default j WHERE j.batch_id = b.id)
			AND (b.sealed_at IS NOT NULL OR b.dropped_at IS NOT NULL) RETURNING b.id)
			DELETE FROM batch_counts c USING gone WHERE c.batch_id = gone.id`, age.Milliseconds())
		return s.pool.SendBatch(ctx, b).Close()
	})
}
