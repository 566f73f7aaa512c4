package schema

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

const (
	// spansLook is how many batches one statement looks at.
	spansLook = 5000
	// spansTime is how long one Maintain notes spans.
	spansTime = 10 * time.Second
)

// unspanned are the next batches without a span, and last the last batch that was looked at.
const unspanned = `
WITH look AS MATERIALIZED (
	SELECT b.id, b.spanned <> b.appended AS lacks, coalesce(b.sealed_at, now()) AS sealed, coalesce(c.recorded, 0) AS recorded, c.ended_at IS NOT NULL AS over
	FROM batches b LEFT JOIN batch_counts c ON c.batch_id = b.id WHERE b.id > $1 ORDER BY b.id LIMIT $2)
SELECT id, sealed, recorded, over, false FROM (SELECT * FROM look WHERE lacks ORDER BY id) l
UNION ALL (SELECT id, sealed, recorded, over, true FROM look ORDER BY id DESC LIMIT 1)`

// unspannedBatch is a batch that lacks its span.
type unspannedBatch struct {
	id       job.ID
	sealed   time.Time
	recorded int64
	over     bool
}

// noteSpans records the range of job ids of batches for which a release before 0032 did not: uploads in chunks. Their
// jobs are found by their records, so it handles a batch once it is over. A process looks once at the batches before
// the first unfinished one.
func (s *Tables) noteSpans(ctx context.Context) error {
	s.spansMu.Lock()
	defer s.spansMu.Unlock()
	after, waits := cmp.Or(s.spanned, pg.NilID), false
	for until := time.Now().Add(spansTime); time.Now().Before(until); {
		found, last, err := s.unspanned(ctx, after)
		if err != nil || last == "" {
			return err
		}
		for _, b := range found {
			if !b.over {
				waits = true
				continue
			}
			if err := s.noteSpan(ctx, b); err != nil {
				return err
			}
		}
		if after = last; !waits {
			s.spanned = last
		}
	}
	return nil
}

func (s *Tables) unspanned(ctx context.Context, after job.ID) (found []unspannedBatch, last job.ID, err error) {
	err = s.db.Do(ctx, "look for batches without spans", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, unspanned, pg.UUID(after), spansLook)
		if err != nil {
			return err
		}
		found, last = nil, ""
		var id pgtype.UUID
		var b unspannedBatch
		var isLast bool
		_, err = pgx.ForEachRow(rows, []any{&id, &b.sealed, &b.recorded, &b.over, &isLast}, func() error {
			if b.id = pg.JobID(id); isLast {
				last = b.id
			} else {
				found = append(found, b)
			}
			return nil
		})
		return err
	})
	return found, last, err
}

// noteSpan reads the span of a batch from its records, some days at a time. A clock that made ids of
// the batch may have been off by a day.
func (s *Tables) noteSpan(ctx context.Context, b unspannedBatch) error {
	return s.db.Do(ctx, "note the span of a batch", func(ctx context.Context) error {
		windows, err := s.db.Windows(ctx, job.FirstIDAt(b.id.Time().Add(-24*time.Hour)), job.FirstIDAt(b.sealed.Add(24*time.Hour)))
		if err != nil {
			return err
		}
		var n int64
		var first, last *string
		for _, days := range windows { // the newest first
			var some int64
			var lo, hi *string
			err := s.db.Pool.QueryRow(ctx, `SELECT count(*), min(id::text COLLATE "C"), max(id::text COLLATE "C") FROM results
				WHERE batch_id = $1 AND seq > 0 AND `+days.In("id"), pg.UUID(b.id)).Scan(&some, &lo, &hi)
			if err != nil {
				return err
			}
			if some == 0 {
				continue
			}
			if n, first = n+some, lo; last == nil {
				last = hi
			}
		}
		if n != b.recorded || first == nil {
			return nil // they are elsewhere, too
		}
		_, err = s.db.Pool.Exec(ctx, `UPDATE batches SET first_job = $2::text::uuid, last_job = $3::text::uuid, spanned = appended WHERE id = $1 AND sealed_at IS NOT NULL`,
			pg.UUID(b.id), *first, *last)
		return err
	})
}
