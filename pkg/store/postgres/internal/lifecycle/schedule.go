package lifecycle

import (
	"context"
	"embed"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// The statements of a look. Each is a documented file in sql.
var (
	heldSQL     = statement("held")
	settingsSQL = statement("settings")
	walkSQL     = statement("walk")
	headsSQL    = statement("heads")
	jobsSQL     = statement("jobs")
	lanesSQL    = statement("lanes")
	cappedSQL   = statement("capped")
	dispatchSQL = statement("dispatch")
)

//go:embed sql/*.sql
var statements embed.FS

// statement returns the text of a file in sql.
func statement(name string) string {
	text, err := statements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(text)
}

const (
	// lookTime is how long a look may take. Postgres cancels its statements, the wait for the lock
	// included, before a call gives up: so no look that failed holds the lock any longer.
	lookTime      = 5 * time.Second
	lookStatement = 4 * time.Second
	// lookWork is how long a look reads jobs before it dispatches them. If it has found none, it goes on for half of
	// lookTime.
	lookWork = time.Second
)

// Schedule implements store.Scheduler. While it meets only batches with nothing to run, it goes on past them, for
// roundTime.
func (s *Transitions) Schedule(ctx context.Context, classes []string, window int) (ds []store.Dispatch, err error) {
	for began := time.Now(); ; {
		var more bool
		err := s.db.Urgent(ctx, "schedule", func(ctx context.Context) (err error) {
			ds, more, err = s.scheduleOnce(ctx, classes, window)
			return err
		})
		if err != nil || len(ds) > 0 || !more || time.Since(began) > roundTime {
			return ds, err
		}
	}
}

// scheduleOnce is one look. More reports that it left batches out.
func (s *Transitions) scheduleOnce(ctx context.Context, classes []string, window int) (ds []store.Dispatch, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	select {
	case s.looking <- struct{}{}:
		defer func() { <-s.looking }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	l := newLook(s, classes, window)
	conn, err := s.db.Pool.Acquire(ctx)
	if err != nil {
		return nil, false, err
	}
	defer conn.Release() // which closes a connection whose transaction an error left open
	l.conn = conn.Conn()
	if ds, err = l.run(ctx); err != nil {
		return nil, false, err
	}
	return ds, l.end(), nil
}

// Hints implements store.Scheduler.
func (s *Transitions) Hints() store.Hints { return s.db.News.Take() }

// AddHints implements store.Scheduler.
func (s *Transitions) AddHints(h store.Hints) { s.db.News.Add(h) }

// collectDispatches reads the rows of dispatch and unclaimed, in the order of the places.
func collectDispatches(rows pgx.Rows) (ds []store.Dispatch, err error) {
	var id, batch pgtype.UUID
	var d store.Dispatch
	var place int64
	var places []int64
	_, err = pgx.ForEachRow(rows, []any{&id, &d.Generation, &d.TraceParent, &d.Cacheable, &d.Pool, &batch, &d.Tenant, &place}, func() error {
		d.Job, d.BatchID = pg.JobID(id), ""
		if d.TraceParent != "" {
			d.BatchID = pg.BatchID(batch)
		}
		at, _ := slices.BinarySearch(places, place+1) // behind equal places
		places, ds = slices.Insert(places, at, place), slices.Insert(ds, at, d)
		return nil
	})
	return ds, err
}

// unclaimed finds its rows through the index on dispatched jobs, of which there are never more than the windows.
const unclaimed = `
UPDATE live_jobs j SET published_at = now()
FROM (SELECT id FROM live_jobs WHERE state = 'dispatched' AND published_at < now() - $1 * interval '1 millisecond'
	ORDER BY published_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) p
WHERE j.id = p.id AND j.state || '' = 'dispatched'
RETURNING j.id, j.dispatch_gen, coalesce(j.traceparent, ''), j.cache_key IS NOT NULL, j.pool, j.batch_id,
	CASE WHEN j.traceparent IS NULL THEN '' ELSE (SELECT t.name FROM tenants t WHERE t.id = j.tenant_id) END, 0::bigint`

// Unclaimed implements store.Scheduler.
func (s *Transitions) Unclaimed(ctx context.Context, olderThan time.Duration, n int) (ds []store.Dispatch, err error) {
	err = s.db.Urgent(ctx, "unclaimed", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, unclaimed, olderThan.Milliseconds(), n)
		if err != nil {
			return err
		}
		ds, err = collectDispatches(rows)
		return err
	})
	return ds, err
}
