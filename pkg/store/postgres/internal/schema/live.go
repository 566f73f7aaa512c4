package schema

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Statements of the queue speak of live_jobs, live_specs, live_attempts and live_results:
// views of the tables from a day on. The bound is a constant in the view, so the server
// leaves out the partitions of earlier days when it plans: it neither locks nor opens
// them. (A bound that is an argument keeps it from reading them only. A year of history
// took a statement of the queue thirty times as long.) What is over for long, that is
// records of clients, is read from the tables.
//
// No job before the bound is unfinished, so none is overlooked: moveLive sees to it. A
// finished job stays finished, and the id of a new one is of today, unless the clock of
// its dispatcher is a day behind. Such a job waits until the next look finds it.

// liveChunk is how many partitions one statement looks into.
const liveChunk = 50

// moveLive has the views begin with the first day that has unfinished jobs, or with
// yesterday. It is job.ErrUnavailable if there is no moment in which nobody uses them.
func (s *Tables) moveLive(ctx context.Context) error {
	var is, since job.ID
	if err := s.db.Do(ctx, "look for live days", func(ctx context.Context) (err error) {
		since, err = s.liveSince(ctx)
		return err
	}); err != nil {
		return err
	}
	if err := s.db.Do(ctx, "read the live days", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, `SELECT assay_live_since()::text`).Scan(&is)
	}); err != nil || is == since {
		return err
	}
	return s.exclusively(ctx, []string{"live_jobs", "live_specs", "live_attempts", "live_results"}, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT assay_live_since($1::uuid)`, pg.UUID(since))
		return err
	})
}

// partitionsBefore are the partitions of days before one and the one of no day, the
// latter first.
const partitionsBefore = `
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'jobs'::regclass AND (c.relname = 'jobs_default' OR c.relname ~ '^jobs_[0-9]{8}$' AND c.relname < $1)
ORDER BY c.relname <> 'jobs_default', c.relname`

// liveSince returns the id that the views are to begin with.
func (s *Tables) liveSince(ctx context.Context) (job.ID, error) {
	var yesterday time.Time
	if err := s.db.Pool.QueryRow(ctx, `SELECT `+maintainFrom).Scan(&yesterday); err != nil {
		return "", err
	}
	since := job.FirstIDAt(yesterday)
	rows, err := s.db.Pool.Query(ctx, partitionsBefore, yesterday.Format("jobs_20060102"))
	if err != nil {
		return "", err
	}
	parts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", err
	}
	for len(parts) > 0 {
		n := min(len(parts), liveChunk)
		oldest, err := s.oldestUnfinished(ctx, parts[:n], since)
		if err != nil || oldest != since {
			return oldest, err
		}
		parts = parts[n:]
	}
	return since, nil
}

// oldestUnfinished returns where to begin so that unfinished jobs of these partitions, the
// oldest first, are seen. It is since if there are none before.
func (s *Tables) oldestUnfinished(ctx context.Context, parts []string, since job.ID) (job.ID, error) {
	var each []string
	for _, part := range parts {
		each = append(each, fmt.Sprintf(`SELECT '%s' AS part WHERE %s`, part, unfinishedIn(part, "id < '"+string(since)+"'")))
	}
	var oldest *string
	err := s.db.Pool.QueryRow(ctx, `SELECT min(part) FROM (`+strings.Join(each, " UNION ALL ")+`) u`,
		pgx.QueryExecModeExec).Scan(&oldest) // not one for the cache of statements
	if err != nil || oldest == nil {
		return since, err
	}
	day, err := time.Parse("jobs_20060102", *oldest)
	if err != nil { // the default partition, whose ids are of any day
		return pg.NilID, nil
	}
	return job.FirstIDAt(day), nil
}

// unfinishedIn is whether a partition has unfinished jobs of which a condition is true.
func unfinishedIn(part, condition string) string {
	var each []string
	for _, state := range []job.State{job.Queued, job.Dispatched, job.Running} { // a partial index for each
		each = append(each, fmt.Sprintf(`EXISTS (SELECT FROM %s WHERE state = '%s' AND %s)`, part, state, condition))
	}
	return "(" + strings.Join(each, " OR ") + ")"
}
