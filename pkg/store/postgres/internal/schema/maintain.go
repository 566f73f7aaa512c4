package schema

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// The number of days whose partitions are kept ready. They start yesterday, for ids of a process whose clock is behind.
// Two are ahead, so there is time to wait until a backup is over. Each costs: statements lock and visit every
// partition, and four more took a twentieth of the rate of small Python programs.
const (
	maintainFrom = `(now() AT TIME ZONE 'UTC' - interval '1 day')::date`
	maintainDays = 4
)

// maintainLock lets one make partitions at a time, to the end of its transaction.
const maintainLock = `SELECT pg_advisory_xact_lock(hashtextextended('assay maintain', 0))`

const (
	// undatedWithin is how many days from today rows of the default partition get a partition of their day. Rows
	// that a wilder clock made stay there, and are deleted one by one (forgetUndated).
	undatedWithin = 31
	// moveTime is how long one Maintain moves rows out of default partitions.
	moveTime = 30 * time.Second
)

// part is a partition to make, or to extend to the end of its day.
type part struct {
	parent string
	day    time.Time
	exists bool
}

// missingDays are the partitions of the days ahead, and of the days $1, that do not exist or do not reach to the ends of their days.
const missingDays = `
SELECT p.parent, d.day, to_regclass(p.parent || to_char(d.day, '_YYYYMMDD')) IS NOT NULL
FROM (SELECT generate_series(` + maintainFrom + `, ` + maintainFrom + ` + $2::integer - 1, interval '1 day')::date UNION SELECT unnest($1::date[])) AS d (day),
	unnest(ARRAY['jobs', 'specs', 'attempts', 'results']) AS p (parent)
WHERE coalesce(assay_partition_end(p.parent || to_char(d.day, '_YYYYMMDD')) < assay_first_id(d.day + 1), true) ORDER BY d.day, p.parent`

// Maintain implements store.Scheduler. It makes days ahead, moves rows without a day to their days, notes the days on
// which the queue works, and notes missing spans of batches. After a failed step it runs the others.
func (s *Tables) Maintain(ctx context.Context) error {
	return errors.Join(s.makeDays(ctx), s.moveLive(ctx), s.noteSpans(ctx))
}

// makeDays makes partitions one by one: each waits for the transactions that use the default partition, and later ones
// wait for it, at most as long as exclusively allows. It returns job.ErrUnavailable if rows of a day are left in the
// default partition.
func (s *Tables) makeDays(ctx context.Context) error {
	for until := time.Now().Add(moveTime); ; {
		missing, err := s.missing(ctx)
		if err != nil || len(missing) == 0 {
			return err
		}
		moves := false
		for _, p := range missing {
			changed, err := s.makePart(ctx, p)
			if err != nil {
				return fmt.Errorf("make %s of %s: %w", p.parent, p.day.Format(time.DateOnly), err)
			}
			moves = moves || changed
		}
		if !moves || time.Now().After(until) {
			return fmt.Errorf("%w: %s of %s is not complete: its rows are in %[2]s_default", job.ErrUnavailable, missing[0].parent, missing[0].day.Format(time.DateOnly))
		}
	}
}

// makePart makes a partition, or extends it by a step. It reports whether it changed anything.
func (s *Tables) makePart(ctx context.Context, p part) (changed bool, err error) {
	tables := []string{p.parent + "_default"}
	if p.exists { // it is taken off and put on again
		tables = append(tables, p.parent, p.parent+p.day.Format("_20060102"))
	}
	err = s.exclusively(ctx, tables, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT assay_partition($1, $2)`, p.parent, p.day).Scan(&changed)
	})
	return changed, err
}

// MakeDay makes the partitions of a day, if they are missing.
func (s *Tables) MakeDay(ctx context.Context, day time.Time) error {
	for _, parent := range []string{"jobs", "specs", "attempts", "results"} {
		p := part{parent: parent, day: day}
		var exists bool
		err := s.db.Do(ctx, "look for a day", func(ctx context.Context) error {
			return s.db.Pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, parent+day.Format("_20060102")).Scan(&exists)
		})
		if err == nil && !exists {
			_, err = s.makePart(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("make %s of %s: %w", parent, day.Format(time.DateOnly), err)
		}
	}
	return nil
}

func (s *Tables) missing(ctx context.Context) (parts []part, err error) {
	err = s.db.Do(ctx, "look for missing days", func(ctx context.Context) error {
		undated, err := s.undatedNear(ctx)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, missingDays, undated, maintainDays)
		if err != nil {
			return err
		}
		parts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p part, err error) {
			return p, row.Scan(&p.parent, &p.day, &p.exists)
		})
		return err
	})
	return parts, err
}

// undatedNear returns the days near today that have rows in a default partition.
func (s *Tables) undatedNear(ctx context.Context) (days []time.Time, err error) {
	var today time.Time
	if err := s.db.Pool.QueryRow(ctx, `SELECT (now() AT TIME ZONE 'UTC')::date`).Scan(&today); err != nil {
		return nil, err
	}
	below := pg.UUID(job.FirstIDAt(today.AddDate(0, 0, undatedWithin+1)))
	for _, parent := range []string{"jobs", "specs", "attempts", "results"} {
		key := "id"
		if parent == "attempts" {
			key = "job_id"
		}
		for from := job.FirstIDAt(today.AddDate(0, 0, -undatedWithin)); ; {
			var id pgtype.UUID
			err := s.db.Pool.QueryRow(ctx, fmt.Sprintf(`SELECT (SELECT %[1]s FROM %[2]s_default WHERE %[1]s >= $1 AND %[1]s < $2 ORDER BY %[1]s LIMIT 1)`, key, parent),
				pg.UUID(from), below).Scan(&id)
			if err != nil {
				return nil, err
			}
			if !id.Valid {
				break
			}
			d := pg.DayOf(pg.JobID(id))
			days, from = append(days, d.First.Time().UTC()), d.Below
		}
	}
	return days, nil
}

const (
	// A request for an exclusive lock blocks all later ones: it waits for this long, and is tried again later.
	lockWait  = 200 * time.Millisecond
	lockAgain = time.Second
	lockTries = 8
)

// longHeld names a table that a long transaction uses. It will not be over soon, so waiting is useless. Sessions of
// other roles do not show the age of their transactions.
const longHeld = `
SELECT coalesce((SELECT l.relation::regclass::text FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
	WHERE l.locktype = 'relation' AND l.granted AND l.pid <> pg_backend_pid()
	AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND l.relation::regclass::text = ANY($1) AND coalesce(a.xact_start, '-infinity') < now() - interval '3 seconds' LIMIT 1), '')`

// exclusively runs f in a transaction of its own that locks tables exclusively, when no long transaction uses them. If
// a session does, as a backup does for hours, or there is no free moment, it returns job.ErrUnavailable: try again
// later. No other session waits longer than lockWait because of it.
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
		// Take this lock first: its waiters block no other session.
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
