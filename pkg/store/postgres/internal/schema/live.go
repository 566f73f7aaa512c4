package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Statements of the queue read live_jobs, live_specs, live_attempts and live_results: views of the tables. They have
// the days from yesterday on, and earlier days with unfinished jobs (ADR 0044). The bounds are constants in the views,
// so the planner leaves out the partitions of all other days: the server neither locks nor opens them. (With arguments
// as bounds it only does not read them: with a year of history a statement of the queue took thirty times as long.)
// Records of finished jobs are read from the tables, some days at a time (pg.Days).
//
// moveLive ensures that the views have every unfinished job. A finished job stays finished, and the id of a new job is
// of today, unless the clock of its dispatcher is a day behind. Such a job waits until the next moveLive finds it.

const (
	// liveChunk is how many partitions one statement looks into: it locks eleven relations for each.
	liveChunk = 8
	// maxUndatedDays is how many days without a partition the views name. With unfinished jobs of more
	// such days, they have all of history.
	maxUndatedDays = 32
)

// moveLive makes the views begin with yesterday, and adds the earlier days that have unfinished jobs. It returns
// job.ErrUnavailable if the views are always in use.
func (s *Tables) moveLive(ctx context.Context) error {
	var is, want []pg.Days
	if err := s.db.Do(ctx, "look for live days", func(ctx context.Context) (err error) {
		if want, err = s.liveDays(ctx); err != nil {
			return err
		}
		is, err = s.db.LiveDays(ctx)
		return err
	}); err != nil || slices.Equal(is, want) {
		return err
	}
	bounds := []pgtype.UUID{pg.UUID(want[0].First)}
	for _, d := range want[1:] {
		bounds = append(bounds, pg.UUID(d.First), pg.UUID(d.Below))
	}
	return s.exclusively(ctx, []string{"live_jobs", "live_specs", "live_attempts", "live_results"}, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT assay_live_bounds($1::uuid[])`, bounds)
		return err
	})
}

// partitionsBefore are the partitions of days before one, the oldest first.
const partitionsBefore = `
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'jobs'::regclass AND c.relname ~ '^jobs_[0-9]{8}$' AND c.relname < $1 ORDER BY c.relname`

// liveDays returns the days that the views are to have: those from yesterday on, then the earlier ones,
// the oldest first. Days in a row are one stretch.
func (s *Tables) liveDays(ctx context.Context) ([]pg.Days, error) {
	var yesterday time.Time
	if err := s.db.Pool.QueryRow(ctx, `SELECT `+maintainFrom).Scan(&yesterday); err != nil {
		return nil, err
	}
	since := pg.Days{First: job.FirstIDAt(yesterday), Below: pg.LastID}
	rows, err := s.db.Pool.Query(ctx, partitionsBefore, yesterday.Format("jobs_20060102"))
	if err != nil {
		return nil, err
	}
	parts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	old, err := s.undatedDays(ctx, since.First)
	if err != nil {
		return nil, err
	}
	if len(old) > maxUndatedDays {
		return []pg.Days{{First: pg.NilID, Below: pg.LastID}}, nil
	}
	for some := range slices.Chunk(parts, liveChunk) {
		days, err := s.unfinishedDays(ctx, some)
		if err != nil {
			return nil, err
		}
		old = append(old, days...)
	}
	return joinDays(since, old), nil
}

// unfinishedDays returns the days of those partitions that have unfinished jobs.
func (s *Tables) unfinishedDays(ctx context.Context, parts []string) (days []pg.Days, err error) {
	var each []string
	for _, part := range parts {
		each = append(each, fmt.Sprintf(`SELECT '%s' AS part WHERE %s`, part, unfinishedIn(part, "true")))
	}
	rows, err := s.db.Pool.Query(ctx, strings.Join(each, " UNION ALL "), pgx.QueryExecModeExec) // not one for the cache of statements
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		day, err := time.Parse("jobs_20060102", name)
		if err != nil {
			return nil, err
		}
		days = append(days, pg.DayOf(job.FirstIDAt(day)))
	}
	return days, nil
}

// undatedDays returns the days before an id that have unfinished jobs in the default partition, up to one more than the
// views name.
func (s *Tables) undatedDays(ctx context.Context, before job.ID) (days []pg.Days, err error) {
	for from := pg.NilID; len(days) <= maxUndatedDays; from = days[len(days)-1].Below {
		var id pgtype.UUID
		err := s.db.Pool.QueryRow(ctx, `SELECT (SELECT id FROM jobs_default
			WHERE id >= $1 AND id < $2 AND state || '' IN ('queued', 'dispatched', 'running') ORDER BY id LIMIT 1)`, pg.UUID(from), pg.UUID(before)).Scan(&id)
		if err != nil || !id.Valid {
			return days, err
		}
		days = append(days, pg.DayOf(pg.JobID(id)))
	}
	return days, nil
}

// joinDays makes stretches of days in a row.
func joinDays(since pg.Days, old []pg.Days) []pg.Days {
	slices.SortFunc(old, func(a, b pg.Days) int { return strings.Compare(string(a.First), string(b.First)) })
	var joined []pg.Days
	for _, d := range slices.Compact(old) {
		if n := len(joined); n > 0 && joined[n-1].Below == d.First {
			joined[n-1].Below = d.Below
			continue
		}
		joined = append(joined, d)
	}
	if n := len(joined); n > 0 && joined[n-1].Below == since.First {
		since.First, joined = joined[n-1].First, joined[:n-1]
	}
	return append([]pg.Days{since}, joined...)
}

// unfinishedIn is SQL for whether a partition has unfinished jobs that meet a condition.
func unfinishedIn(part, condition string) string {
	var each []string
	for _, state := range []job.State{job.Queued, job.Dispatched, job.Running} { // a partial index for each
		each = append(each, fmt.Sprintf(`EXISTS (SELECT FROM %s WHERE state = '%s' AND %s)`, part, state, condition))
	}
	return "(" + strings.Join(each, " OR ") + ")"
}
