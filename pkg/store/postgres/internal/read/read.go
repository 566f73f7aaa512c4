package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Result implements store.Reader.
func (s *Reader) Result(ctx context.Context, tenant string, id job.ID) (raw json.RawMessage, err error) {
	err = s.db.Do(ctx, "result", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		var r format.Result
		err = s.db.Pool.QueryRow(ctx, `SELECT `+format.ResultColumns+` FROM results r WHERE r.id = $1 AND ($2::integer = 0 OR r.tenant_id = $2) AND `+pg.OnDay("r.id", id),
			pg.UUID(id), t).Scan(r.Targets()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: no result of job %s", job.ErrNotFound, id)
		}
		raw = r.JSON()
		return err
	})
	if err != nil {
		return nil, s.db.TranslateNotFound(ctx, id, err)
	}
	return raw, nil
}

// results is one page. It ends after limit rows, or when the rows before have so many bytes: the server knows the
// length of a body that is stored out of line without reading it.
func results(days pg.Days) string {
	return `
SELECT ` + format.ResultColumns + ` FROM (
	SELECT r.*, sum(octet_length(r.body)) OVER (ORDER BY r.seq ROWS UNBOUNDED PRECEDING) - octet_length(r.body) AS before
	FROM results r
	WHERE r.batch_id = $1 AND r.seq > $2 AND r.seq > 0 AND ($3::integer = 0 OR r.tenant_id = $3) AND ` + days.In("r.id") + `
	ORDER BY r.seq LIMIT $4) r
WHERE r.before < $5::bigint ORDER BY r.seq`
}

// Results implements store.Reader. recordTail (package lifecycle) describes why no number is skipped.
func (s *Reader) Results(ctx context.Context, tenant string, batch job.ID, after store.Cursor, limit int) (out []json.RawMessage, next store.Cursor, err error) {
	next = after
	err = s.db.Do(ctx, "results", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		days, err := s.DaysOf(ctx, batch)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, results(days), pg.UUID(batch), int64(max(after, 0)), t, limit, store.PageBytes)
		if err != nil {
			return err
		}
		var r format.Result
		_, err = pgx.ForEachRow(rows, r.Targets(), func() error {
			out = append(out, r.JSON())
			next = r.Seq
			return nil
		})
		return err
	})
	if err != nil {
		return nil, after, err
	}
	return out, next, nil
}

// Job implements store.Reader.
func (s *Reader) Job(ctx context.Context, tenant string, id job.ID) (*job.Job, error) {
	j := &job.Job{ID: id}
	err := s.db.Do(ctx, "job", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		var batch pgtype.UUID
		var spec []byte
		var trace string
		var started, ended *time.Time
		var paused bool
		err = s.db.Pool.QueryRow(ctx, `
			SELECT j.batch_id, t.name, s.spec, j.pool, j.state, j.lease, coalesce(j.worker, ''), j.created_at, j.started_at, j.ended_at,
				coalesce(j.traceparent, ''),
				j.state = 'queued' AND (t.paused_at IS NOT NULL OR EXISTS (SELECT FROM batches b WHERE b.id = j.batch_id AND b.paused_at IS NOT NULL))
			FROM jobs j JOIN specs s ON s.id = j.id JOIN tenants t ON t.id = j.tenant_id
			WHERE j.id = $1 AND s.id = $1 AND ($2::integer = 0 OR j.tenant_id = $2)
				AND `+pg.OnDay("j.id", id)+` AND `+pg.OnDay("s.id", id)+`
				AND NOT EXISTS (SELECT FROM batches b WHERE b.id = j.batch_id AND b.sealed_at IS NULL)`, pg.UUID(id), t).
			Scan(&batch, &j.Tenant, &spec, &j.Pool, &j.State, &j.Lease, &j.Worker, &j.CreatedAt, &started, &ended, &trace, &paused)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: job %s", job.ErrNotFound, id)
		}
		if err != nil {
			return err
		}
		j.BatchID, j.TraceID = pg.BatchID(batch), format.TraceID(trace)
		j.StartedAt, j.EndedAt = pg.OrZero(started), pg.OrZero(ended)
		if paused {
			j.WaitsFor, j.Message = job.WaitsPaused, "paused by an operator"
		}
		if j.State == job.Queued || j.State == job.Dispatched {
			j.Lease, j.Worker = 0, "" // they belong to an attempt that is over
		}
		return json.Unmarshal(spec, &j.Spec)
	})
	if err != nil || !j.State.Terminal() {
		return withoutResult(j, s.db.TranslateNotFound(ctx, id, err))
	}
	raw, err := s.Result(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	j.Result = new(job.Result)
	if err := json.Unmarshal(raw, j.Result); err != nil {
		return nil, fmt.Errorf("postgres: result of job %s: %w", id, err)
	}
	return j, nil
}

func withoutResult(j *job.Job, err error) (*job.Job, error) {
	if err != nil {
		return nil, err
	}
	return j, nil
}

// resultsLook is how many records are searched for a page of one outcome.
const resultsLook = 5000

// lookedAt is the last number of the next $4 records, and how many there are.
func lookedAt(days pg.Days) string {
	return `
SELECT coalesce(max(l.seq), 0), count(*) FROM (SELECT r.seq FROM results r
	WHERE r.batch_id = $1 AND r.seq > $2 AND r.seq > 0 AND ($3::integer = 0 OR r.tenant_id = $3) AND ` + days.In("r.id") + `
	ORDER BY r.seq LIMIT $4) l`
}

// resultsOf is results, restricted to numbers up to $6 and the outcome $7.
func resultsOf(days pg.Days) string {
	return `
SELECT ` + format.ResultColumns + ` FROM (
	SELECT r.*, sum(octet_length(r.body)) OVER (ORDER BY r.seq ROWS UNBOUNDED PRECEDING) - octet_length(r.body) AS before
	FROM results r
	WHERE r.batch_id = $1 AND r.seq > $2 AND r.seq > 0 AND r.seq <= $6 AND ($3::integer = 0 OR r.tenant_id = $3) AND r.outcome || '' = $7 AND ` + days.In("r.id") + `
	ORDER BY r.seq LIMIT $4) r
WHERE r.before < $5::bigint ORDER BY r.seq`
}

// ResultsOf implements store.Browser.
func (s *Reader) ResultsOf(ctx context.Context, tenant string, batch job.ID, o job.Outcome, after store.Cursor, limit int) (out []json.RawMessage, next store.Cursor, more bool, err error) {
	err = s.db.Do(ctx, "results of an outcome", func(ctx context.Context) error {
		out, next = nil, max(after, 0)
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		days, err := s.DaysOf(ctx, batch)
		if err != nil {
			return err
		}
		var last store.Cursor
		var looked int64
		if err := s.db.Pool.QueryRow(ctx, lookedAt(days), pg.UUID(batch), int64(next), t, resultsLook).Scan(&last, &looked); err != nil || looked == 0 {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, resultsOf(days), pg.UUID(batch), int64(next), t, limit, store.PageBytes, int64(last), string(o))
		if err != nil {
			return err
		}
		var r format.Result
		bytes := 0
		if _, err := pgx.ForEachRow(rows, r.Targets(), func() error {
			raw := r.JSON()
			out, next, bytes = append(out, raw), r.Seq, bytes+len(raw)
			return nil
		}); err != nil {
			return err
		}
		if more = len(out) == limit || bytes >= store.PageBytes; !more {
			next, more = last, looked == resultsLook
		}
		return nil
	})
	if err != nil {
		return nil, after, false, err
	}
	return out, next, more, nil
}
