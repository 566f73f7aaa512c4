package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
)

// span is where unfinished jobs are, as ids: from first on, before last. A statement
// that asks whether there are any carries both, and the server then leaves out the
// partitions of other days before it opens them; kept history costs it nothing.
type span struct {
	first, last pgtype.UUID
	found       time.Time
}

// spans keeps what was found for a minute. It stays true for longer, because a
// finished job stays finished and a new one has a new id, but for one that is a day
// or more ahead of the clock, or an hour behind it.
type spans struct {
	last   atomic.Pointer[span]
	search sync.Mutex
}

const (
	spanKnown  = time.Minute
	spanBehind = time.Hour
	spanAhead  = 24 * time.Hour
)

// daysBefore are the partitions of days before one, and the one of no day.
const daysBefore = `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
	WHERE i.inhparent = 'jobs'::regclass AND (c.relname = 'jobs_default' OR c.relname ~ '^jobs_[0-9]{8}$' AND c.relname < $1)`

// everywhere is the span of all ids: right whatever there is, and slow.
func everywhere() span {
	return span{first: uuid(nilID), last: uuid("ffffffff-ffff-ffff-ffff-ffffffffffff")}
}

// unfinished returns the span as it is, or was a minute ago. Nobody waits for
// somebody else's search, and nobody fails for one: a search may meet a partition
// that retention drops between its two statements.
func (s *Store) unfinished(ctx context.Context) span {
	known := s.spans.last.Load()
	if known != nil {
		if age := time.Since(known.found); age >= 0 && age < spanKnown || !s.spans.search.TryLock() {
			return *known
		}
		defer s.spans.search.Unlock()
	}
	found, err := s.findSpan(ctx, time.Now())
	if err != nil {
		return everywhere()
	}
	s.spans.last.Store(&found)
	return found
}

func (s *Store) findSpan(ctx context.Context, now time.Time) (span, error) {
	from := now.Add(-spanBehind).UTC().Truncate(24 * time.Hour)
	sp := span{first: uuid(job.FirstIDAt(from)), last: uuid(job.FirstIDAt(now.Add(spanAhead))), found: now}
	oldest, err := s.oldestUnfinished(ctx, from)
	if err != nil || oldest == "" {
		return sp, err
	}
	if day, err := time.Parse("jobs_20060102", oldest); err == nil {
		sp.first = uuid(job.FirstIDAt(day))
	} else { // the default partition, whose ids are of any day
		all := everywhere()
		sp.first, sp.last = all.first, all.last
	}
	return sp, nil
}

// oldestUnfinished names the first partition before a day that holds unfinished
// jobs, the default partition before any other; empty if none does.
func (s *Store) oldestUnfinished(ctx context.Context, day time.Time) (string, error) {
	rows, err := s.pool.Query(ctx, daysBefore, day.Format("jobs_20060102"))
	if err != nil {
		return "", err
	}
	parts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", err
	}
	var each []string
	for _, part := range parts {
		each = append(each, fmt.Sprintf(`SELECT '%s' AS part WHERE %s`, part, unfinishedIn(part)))
	}
	var oldest string
	err = s.pool.QueryRow(ctx, `SELECT coalesce(min(part) FILTER (WHERE part = 'jobs_default'), min(part), '') FROM (`+
		strings.Join(each, " UNION ALL ")+`) u`, pgx.QueryExecModeExec).Scan(&oldest) // not one for the cache of statements
	return oldest, err
}

// unfinishedIn is whether a partition has unfinished jobs.
func unfinishedIn(part string) string {
	var each []string
	for _, state := range []job.State{job.Queued, job.Dispatched, job.Running} { // a partial index for each
		each = append(each, fmt.Sprintf(`EXISTS (SELECT FROM %s WHERE state = '%s')`, part, state))
	}
	return "(" + strings.Join(each, " OR ") + ")"
}
