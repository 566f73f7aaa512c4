package pg

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
)

// WindowDays is how many partitions of a table one statement about history plans at most, besides the default
// partition. A list of jobs takes about sixteen locks for each of them.
const WindowDays = 3

// calendarAge is how long a list of the partitions is used. An older one is not wrong: a window
// has all ids between its bounds, and a few partitions more if days were added.
const calendarAge = 10 * time.Second

// calendar caches the days that have partitions, and the days on which the queue works.
type calendar struct {
	mu   sync.Mutex
	at   time.Time
	days []job.ID // first ids, the newest first
	live []Days
}

const datedPartitions = `
SELECT right(c.relname, 8) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'jobs'::regclass AND c.relname ~ '^jobs_[0-9]{8}$' ORDER BY 1 DESC`

func (db *DB) readCalendar(ctx context.Context) (days []job.ID, live []Days, err error) {
	c := &db.calendar
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < calendarAge {
		return c.days, c.live, nil
	}
	rows, err := db.Pool.Query(ctx, datedPartitions)
	if err != nil {
		return nil, nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		made, err := time.Parse("20060102", name)
		if err != nil {
			return nil, nil, fmt.Errorf("partition of jobs %q: %w", name, err)
		}
		days = append(days, job.FirstIDAt(made))
	}
	if live, err = db.LiveDays(ctx); err != nil {
		return nil, nil, err
	}
	c.at, c.days, c.live = time.Now(), days, live
	return days, live, nil
}

// liveBounds reads the bounds of the live views: they have the ids from the first bound on, and those between each two of the others.
const liveBounds = `SELECT ARRAY(SELECT b::text FROM unnest(assay_live_bounds()) WITH ORDINALITY AS u (b, n) ORDER BY n)`

// LiveDays returns the days that the queue works on: those from a day on first, then older ones.
func (db *DB) LiveDays(ctx context.Context) (live []Days, err error) {
	var bounds []string
	if err := db.Pool.QueryRow(ctx, liveBounds).Scan(&bounds); err != nil {
		return nil, err
	}
	live = []Days{{job.ID(bounds[0]), LastID}}
	for pair := range slices.Chunk(bounds[1:], 2) {
		live = append(live, Days{job.ID(pair[0]), job.ID(pair[1])})
	}
	return live, nil
}

// Windows cuts the ids from first on and less than below into stretches of whole days, the newest first. A statement
// about one window plans few partitions, however many there are. The window's bounds are constants (In) and the query's
// values are arguments, so all callers for these days share one statement.
func (db *DB) Windows(ctx context.Context, first, below job.ID) (windows []Days, err error) {
	days, _, err := db.readCalendar(ctx)
	if err != nil {
		return nil, err
	}
	return cut(days, first, below), nil
}

// LiveWindows returns those Windows that have a day which the queue works on.
func (db *DB) LiveWindows(ctx context.Context, first, below job.ID) (windows []Days, err error) {
	days, live, err := db.readCalendar(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(cut(days, first, below), func(w Days) bool {
		return !slices.ContainsFunc(live, func(l Days) bool { return l.First < w.Below && w.First < l.Below })
	}), nil
}

func cut(days []job.ID, first, below job.ID) (windows []Days) {
	if first >= below {
		return nil
	}
	top := LastID
	add := func(bottom job.ID) {
		if bottom < below && first < top {
			windows = append(windows, Days{bottom, top})
		}
		top = bottom
	}
	for i := WindowDays - 1; i < len(days); i += WindowDays {
		add(days[i])
	}
	if top > NilID {
		add(NilID)
	}
	return windows
}
