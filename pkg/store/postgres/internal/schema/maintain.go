package schema

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Days of partitions that are kept ready, from yesterday's on: ids of a process
// whose clock is behind belong there. Two are ahead, so there is time to wait until a
// backup is over. Each costs: statements lock and visit every partition, and four more
// took a twentieth of the rate of small Python programs.
const (
	maintainFrom = `(now() AT TIME ZONE 'UTC' - interval '1 day')::date`
	maintainDays = 4
)

// maintainLock lets one make partitions at a time, to the end of its transaction.
const maintainLock = `SELECT pg_advisory_xact_lock(hashtextextended('assay maintain', 0))`

// missingDays are the partitions to make.
const missingDays = `
SELECT p.parent, d.day::date FROM generate_series(` + maintainFrom + `, ` + maintainFrom + ` + $1::integer - 1, interval '1 day') AS d (day),
	unnest(ARRAY['jobs', 'specs', 'attempts', 'results']) AS p (parent)
WHERE to_regclass(p.parent || to_char(d.day, '_YYYYMMDD')) IS NULL ORDER BY d.day, p.parent`

// Maintain implements store.Scheduler. It makes days ahead, and moves the first of those
// that the queue looks at. Partitions are made one by one: each waits for
// whoever uses the default partition, and others wait for it, no longer than exclusively
// says.
func (s *Tables) Maintain(ctx context.Context) error {
	type part struct {
		parent string
		day    time.Time
	}
	var missing []part
	if err := s.db.Do(ctx, "look for missing days", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, missingDays, maintainDays)
		if err != nil {
			return err
		}
		missing, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p part, err error) {
			return p, row.Scan(&p.parent, &p.day)
		})
		return err
	}); err != nil {
		return err
	}
	for _, p := range missing {
		err := s.exclusively(ctx, []string{p.parent + "_default"}, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT assay_partition($1, $2)`, p.parent, p.day)
			return err
		})
		if err != nil {
			return errors.Join(fmt.Errorf("make %s of %s: %w", p.parent, p.day.Format(time.DateOnly), err), s.moveLive(ctx))
		}
	}
	return s.moveLive(ctx)
}

const (
	// Whoever wants a table for himself is in the way of all who come after him: he waits
	// for so long, and tries again later.
	lockWait  = 200 * time.Millisecond
	lockAgain = time.Second
	lockTries = 8
)

// longHeld names a table that a transaction uses that lasts. It will not be over soon: it is
// no use to wait for it. Sessions of other roles do not say how long theirs last.
const longHeld = `
SELECT coalesce((SELECT l.relation::regclass::text FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
	WHERE l.locktype = 'relation' AND l.granted AND l.pid <> pg_backend_pid()
	AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND l.relation::regclass::text = ANY($1) AND coalesce(a.xact_start, '-infinity') < now() - interval '3 seconds' LIMIT 1), '')`

// exclusively runs f in a transaction of its own that takes tables for itself, as f says,
// when nobody uses them for long. If somebody does, as a backup does for hours, or
// there is no moment that is free, it is job.ErrUnavailable: try again in a while. Nobody
// waits for longer than lockWait because of it.
func (s *Tables) exclusively(ctx context.Context, tables []string, f func(context.Context, pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := s.exclusive(ctx, tables, f)
		var refused *pgconn.PgError
		if err == nil || try == lockTries || !errors.As(err, &refused) || refused.Code != pg.LockNotAvailable && refused.Code != pg.DeadlockDetected {
			return pg.Translate("change tables", err)
		}
		select {
		case <-time.After(lockAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Tables) exclusive(ctx context.Context, tables []string, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.db.Timeout())
	defer cancel()
	return pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error {
		// This lock first: nobody waits behind who waits for it.
		if _, err := tx.Exec(ctx, maintainLock); err != nil {
			return err
		}
		var held string
		if err := tx.QueryRow(ctx, longHeld, tables).Scan(&held); err != nil {
			return err
		}
		if held != "" {
			return fmt.Errorf("%w: a transaction that lasts uses %s", job.ErrUnavailable, held)
		}
		if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', $1, true)`, fmt.Sprint(lockWait.Milliseconds())); err != nil {
			return err
		}
		return f(ctx, tx)
	})
}
