package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// labeled finds the jobs of tenant $1 under way that have the labels $2, if there are any, in the
// pools $3 as far as they are queued; those of the batch $4 and in the state $5, if one is named. It is one snapshot: a job that changes its
// state meanwhile is found in one of them, wherever it goes. Jobs of batches that
// are still open are none yet. Labels are not indexed: the price of an index would
// be paid by every submit, and this by whoever asks for it.
const labeled = `
WITH live AS MATERIALIZED (
	SELECT '00000000-0000-0000-0000-000000000000'::uuid AS id, '{}'::jsonb AS labels WHERE $4::uuid IS NULL
	UNION ALL
	SELECT b.id, coalesce(b.labels::jsonb, '{}') FROM batch_counts c JOIN batches b ON b.id = c.batch_id
	WHERE c.ended_at IS NULL AND b.tenant_id = $1 AND ($4::uuid IS NULL OR b.id = $4)),
jobs_of AS (
	SELECT false AS runs, l.labels, q.id, q.identity FROM live l, unnest($3::text[]) AS p (pool), LATERAL (
		SELECT j.id, j.identity FROM live_jobs j WHERE j.state = 'queued' AND j.pool = p.pool AND j.tenant_id = $1 AND j.batch_id = l.id
		ORDER BY j.tenant_id, j.batch_id, j.priority) q WHERE $5 IN ('', 'queued')
	UNION ALL
	SELECT false, l.labels, q.id, q.identity FROM live l, LATERAL (
		SELECT j.id, j.identity FROM live_jobs j WHERE j.state = 'dispatched' AND j.tenant_id = $1 AND j.batch_id = l.id
		ORDER BY j.tenant_id, j.batch_id) q WHERE $5 IN ('', 'dispatched')
	UNION ALL
	SELECT true, l.labels, q.id, q.identity FROM live l, LATERAL (
		SELECT j.id, j.identity FROM live_jobs j WHERE j.state = 'running' AND j.tenant_id = $1 AND j.batch_id = l.id
		ORDER BY j.tenant_id, j.batch_id) q WHERE $5 IN ('', 'running'))
SELECT id, runs FROM jobs_of
WHERE $2::jsonb IS NULL OR labels || coalesce(('{' || rtrim(identity, ',') || '}')::jsonb -> 'labels', '{}') @> $2::jsonb
ORDER BY runs, id`

var cancelMany = cancel(`SELECT id FROM unnest($1::uuid[]) AS u (id)`)

// labeledJobs returns those that run and those that do not.
func (s *Transitions) labeledJobs(ctx context.Context, tenant string, q store.CancelQuery) (runs, waits []pgtype.UUID, err error) {
	if len(q.Labels) == 0 && q.Batch == "" && q.State == "" {
		return nil, nil, fmt.Errorf("postgres: cancel many: %w: there are no labels, and nothing else", job.ErrInvalid)
	}
	var batch pgtype.UUID
	if q.Batch != "" {
		batch = pg.UUID(q.Batch)
	}
	err = s.db.Do(ctx, "find labels", func(ctx context.Context) error {
		t, err := s.db.KnownTenant(ctx, tenant)
		if err != nil {
			return err
		}
		pools, err := s.read.Pools(ctx)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, labeled, t, pg.LabelsText(q.Labels), pools, batch, string(q.State))
		if err != nil {
			return err
		}
		var id pgtype.UUID
		var running bool
		runs, waits = nil, nil
		_, err = pgx.ForEachRow(rows, []any{&id, &running}, func() error {
			if running {
				runs = append(runs, id)
			} else {
				waits = append(waits, id)
			}
			return nil
		})
		return err
	})
	return runs, waits, err
}

// Prioritize implements store.Scheduler, a chunk at a time: what was changed before an error stays changed.
func (s *Transitions) Prioritize(ctx context.Context, tenant string, q store.PriorityQuery) (n int64, err error) {
	if len(q.Labels) == 0 && q.Batch == "" {
		return 0, fmt.Errorf("postgres: prioritize: %w: there are no labels, and no batch", job.ErrInvalid)
	}
	_, waits, err := s.labeledJobs(ctx, tenant, store.CancelQuery{Labels: q.Labels, Batch: q.Batch, State: job.Queued})
	if err != nil {
		return 0, err
	}
	statement := `
		WITH q AS (SELECT id FROM live_jobs WHERE id = ANY($1) AND state = 'queued' AND priority <> $2 ORDER BY id FOR UPDATE)
		UPDATE live_jobs j SET priority = $2 FROM q WHERE j.id = q.id`
	if q.DryRun {
		statement = `SELECT id FROM live_jobs WHERE id = ANY($1) AND state = 'queued' AND priority <> $2`
	}
	for chunk := range slices.Chunk(waits, cancelChunk) {
		err := s.db.Do(ctx, "prioritize", func(ctx context.Context) error {
			tag, err := s.db.Pool.Exec(ctx, statement, chunk, q.Priority)
			n += tag.RowsAffected()
			return err
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// CancelMany implements store.Scheduler. What runs comes first, as in
// cancelRows; each chunk has a deadline of its own.
func (s *Transitions) CancelMany(ctx context.Context, tenant string, q store.CancelQuery) (c store.Canceled, err error) {
	runs, waits, err := s.labeledJobs(ctx, tenant, q)
	if err != nil {
		return c, err
	}
	if q.DryRun {
		for _, id := range runs {
			c.Running = append(c.Running, store.Canceling{LeaseRef: store.LeaseRef{Job: pg.JobID(id)}, State: job.Running})
		}
		c.Ended = int64(len(waits))
		return c, nil
	}
	if err := s.cancelChunks(ctx, runs, time.Time{}, &c); err != nil {
		return c, err
	}
	return c, s.cancelChunks(ctx, waits, time.Now().Add(s.cfg.CancelTime), &c)
}

// cancelChunks cancels the jobs, a chunk at least; after until, if that is not
// zero, it leaves the rest.
func (s *Transitions) cancelChunks(ctx context.Context, ids []pgtype.UUID, until time.Time, c *store.Canceled) error {
	for chunk := range slices.Chunk(ids, cancelChunk) {
		if c.More = c.Ended > 0 && !until.IsZero() && time.Now().After(until); c.More {
			return nil
		}
		err := s.db.Do(ctx, "cancel by label", func(ctx context.Context) error {
			rows, err := s.record(ctx, cancelMany, chunk)
			for _, e := range rows {
				if e.state == job.Running {
					c.Running = append(c.Running, canceling(e))
				} else {
					c.Ended++
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
