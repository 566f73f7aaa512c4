package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// jobsSlack is how far apart the clocks may be by which a batch without a span and its jobs have their ids.
const jobsSlack = time.Hour

// span is between which ids the jobs of a batch are.
type span struct {
	first, below job.ID
	total        int64
	guessed      bool // from the time of the upload
}

// spanOf returns the span of a sealed batch of the tenant; 0 stands for all tenants. Every statement that adds jobs to
// a batch records it. Releases before 0032 did not for uploads in chunks: until maintenance has (schema.noteSpans),
// their jobs are searched by the time of the upload.
func (s *Reader) spanOf(ctx context.Context, tenant int32, batch job.ID) (b span, err error) {
	var created, sealed time.Time
	var noted bool
	var first, last pgtype.UUID
	err = s.db.Pool.QueryRow(ctx, `SELECT created_at, sealed_at, appended, spanned = appended, first_job, last_job FROM batches
		WHERE id = $1 AND sealed_at IS NOT NULL AND (tenant_id = $2 OR $2::integer = 0)`, pg.UUID(batch), tenant).
		Scan(&created, &sealed, &b.total, &noted, &first, &last)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, fmt.Errorf("%w: batch %s", job.ErrNotFound, batch)
	}
	switch {
	case err != nil:
		return b, err
	case noted && !last.Valid:
		b.first, b.below = pg.NilID, pg.NilID // it has no jobs
	case noted:
		b.first, b.below = pg.JobID(first), pg.IDAfter(pg.JobID(last))
	default:
		made := batch.Time() // by the clock of its dispatcher, as the ids of its jobs; the others are the server's
		end := made.Add(sealed.Sub(created))
		if end.Before(sealed) {
			end = sealed
		}
		b.first, b.below, b.guessed = job.FirstIDAt(made.Add(-jobsSlack)), job.FirstIDAt(end.Add(jobsSlack)), true
	}
	return b, nil
}

// maxSpans bounds the memory of spans.
const maxSpans = 10_000

// DaysOf returns the days that a batch has jobs of; of a batch that is unknown or not sealed, days without ids. The answer
// is remembered: the jobs of a sealed batch do not change.
func (s *Reader) DaysOf(ctx context.Context, batch job.ID) (pg.Days, error) {
	s.spansMu.Lock()
	days, known := s.spans[batch]
	s.spansMu.Unlock()
	if known {
		return days, nil
	}
	b, err := s.spanOf(ctx, 0, batch)
	if errors.Is(err, job.ErrNotFound) {
		return pg.Days{First: pg.NilID, Below: pg.NilID}, nil
	}
	if err != nil {
		return days, err
	}
	if b.guessed {
		b.first, b.below = job.FirstIDAt(b.first.Time().AddDate(0, 0, -1)), job.FirstIDAt(b.below.Time().AddDate(0, 0, 1))
	}
	days = pg.DaysBetween(b.first, b.below)
	s.spansMu.Lock()
	defer s.spansMu.Unlock()
	if s.spans == nil || len(s.spans) >= maxSpans {
		s.spans = map[job.ID]pg.Days{}
	}
	s.spans[batch] = days
	return days, nil
}
