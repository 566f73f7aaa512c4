package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/read"
)

// verify counts the rows of one batch beside its counters, in one statement and so at one
// moment. A batch is gone through as a whole: it takes as long as it is large.
func verify(days pg.Days) string {
	return read.QueuedPools + `,
rows AS MATERIALIZED (
	SELECT count(*) AS n, coalesce(max(seq), 0) AS last, coalesce(sum(seq), 0)::bigint AS sum,
		ARRAY[` + format.PerOutcome(`count(*) FILTER (WHERE outcome = '%s')`) + `] AS outcomes
	FROM results WHERE batch_id = $1 AND seq > 0 AND ` + days.In("id") + `)
SELECT c.total, c.recorded, c.ended_at IS NOT NULL, ARRAY[` + format.PerOutcome(`c.%s`) + `], r.n, r.last, r.sum, c.erased, c.erased_numbers, r.outcomes,
	(SELECT count(*) FROM live_jobs WHERE state = 'dispatched' AND tenant_id = b.tenant_id AND batch_id = b.id)
	+ (SELECT count(*) FROM live_jobs WHERE state = 'running' AND tenant_id = b.tenant_id AND batch_id = b.id)
	+ (SELECT count(*) FROM pools p, LATERAL (SELECT FROM live_jobs WHERE state = 'queued' AND pool = p.pool AND tenant_id = b.tenant_id AND batch_id = b.id
		ORDER BY tenant_id, batch_id, priority OFFSET 0) q)
FROM batches b JOIN batch_counts c ON c.batch_id = b.id, rows r WHERE b.id = $1 AND coalesce(b.sealed_at, 'infinity') < 'infinity'`
}

// rower is a pool or a transaction.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func verifyOne(ctx context.Context, q rower, days pg.Days, batch job.ID) (v store.Verified, err error) {
	var counters, rows []int64
	var last, sum, erased, erasedNumbers int64
	v.Batch = batch
	err = q.QueryRow(ctx, verify(days), pg.UUID(batch)).Scan(&v.Total, &v.Recorded, &v.Ended, &counters, &v.Results, &last, &sum, &erased, &erasedNumbers, &rows, &v.Live)
	if errors.Is(err, pgx.ErrNoRows) {
		return v, fmt.Errorf("%w: batch %s", job.ErrNotFound, batch)
	}
	if err != nil {
		return v, err
	}
	v.Counters, v.Rows = map[job.Outcome]int64{}, map[job.Outcome]int64{}
	for i, o := range job.Outcomes {
		if counters[i]+rows[i] == 0 {
			continue
		}
		if v.Counters[o], v.Rows[o] = counters[i], rows[i]; counters[i] != rows[i] {
			v.Problems = append(v.Problems, fmt.Sprintf("%d results are %s, and %d are counted", rows[i], o, counters[i]))
		}
	}
	if v.Results != v.Recorded {
		v.Problems = append(v.Problems, fmt.Sprintf("there are %d results, and %d are counted", v.Results, v.Recorded))
	}
	if v.Ended != (v.Results == v.Total) {
		v.Problems = append(v.Problems, fmt.Sprintf("ended is %v with %d results of %d jobs", v.Ended, v.Results, v.Total))
	}
	v.Repairable = len(v.Problems) > 0
	// Faults that are not in the counters.
	if all := v.Results + erased; last > all || sum+erasedNumbers != all*(all+1)/2 {
		v.Problems = append(v.Problems, fmt.Sprintf("the %d results are not numbered from 1 to %d", v.Results, v.Results))
		v.Repairable = false
	}
	if v.Results+v.Live != v.Total {
		v.Problems = append(v.Problems, fmt.Sprintf("%d jobs have a result and %d are under way, of %d", v.Results, v.Live, v.Total))
		v.Repairable = false
	}
	return v, nil
}

// Verify implements store.Steering.
func (s *Transitions) Verify(ctx context.Context, q store.VerifyQuery) (vs []store.Verified, err error) {
	batches := []job.ID{q.Batch}
	if q.Batch == "" {
		q.After = cmp.Or(q.After, pg.NilID)
		batches, err = s.db.QueryBatches(ctx, `
			SELECT c.batch_id FROM batch_counts c JOIN batches b ON b.id = c.batch_id
			WHERE c.ended_at IS NULL AND c.batch_id > $1 AND coalesce(b.sealed_at, 'infinity') < 'infinity' ORDER BY c.batch_id LIMIT $2`,
			pg.UUID(q.After), max(q.Limit, 1))
		if err != nil {
			return nil, err
		}
	}
	for _, b := range batches {
		err := s.db.Do(ctx, "verify a batch", func(ctx context.Context) error {
			days, err := s.read.DaysOf(ctx, b)
			if err != nil {
				return err
			}
			v, err := verifyOne(ctx, s.db.Pool, days, b)
			if err == nil {
				vs = append(vs, v)
			}
			return err
		})
		if err != nil && (q.Batch != "" || !errors.Is(err, job.ErrNotFound)) {
			return vs, err
		}
	}
	return vs, nil
}

// setCounters takes the numbers from $2 on, one for each outcome.
var setCounters = func() string {
	var set []string
	for i, o := range job.Outcomes {
		set = append(set, fmt.Sprintf("%s = ($2::bigint[])[%d]", o, i+1))
	}
	return `UPDATE batch_counts SET recorded = $3, ` + strings.Join(set, ", ") + `,
	ended_at = CASE WHEN $3 = total THEN coalesce(ended_at, now()) END WHERE batch_id = $1`
}()

// Repair implements store.Steering. Writers of results of the batch wait meanwhile for the row of its counters, so the
// count includes all that is committed.
func (s *Transitions) Repair(ctx context.Context, a *store.Action, batch job.ID) error {
	days, err := s.daysOf(ctx, batch)
	if err != nil {
		return err
	}
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		var id pgtype.UUID
		err := tx.QueryRow(ctx, `SELECT batch_id FROM batch_counts WHERE batch_id = $1 FOR NO KEY UPDATE`, pg.UUID(batch)).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, fmt.Errorf("%w: batch %s", job.ErrNotFound, batch)
		}
		if err != nil {
			return false, err
		}
		v, err := verifyOne(ctx, tx, days, batch)
		if err != nil || len(v.Problems) == 0 {
			return false, err
		}
		if err := pg.Detail(a, v); err != nil {
			return false, err
		}
		if !v.Repairable {
			return false, fmt.Errorf("%w: batch %s: more than its counters is wrong: %s", job.ErrRefused, batch, strings.Join(v.Problems, "; "))
		}
		var rows []int64
		for _, o := range job.Outcomes {
			rows = append(rows, v.Rows[o])
		}
		_, err = tx.Exec(ctx, setCounters, pg.UUID(batch), rows, v.Results)
		return true, err
	})
}
