package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// labeled finds the jobs of tenant $1 under way that have the labels $2, in the
// pools $3 as far as they are queued. It is one snapshot: a job that changes its
// state meanwhile is found in one of them, wherever it goes. Jobs of batches that
// are still open are none yet. Labels are not indexed: the price of an index would
// be paid by every submit, and this by whoever asks for it.
const labeled = `
WITH live AS MATERIALIZED (
	SELECT '00000000-0000-0000-0000-000000000000'::uuid AS id, '{}'::jsonb AS labels
	UNION ALL
	SELECT b.id, coalesce(b.labels::jsonb, '{}') FROM batch_counts c JOIN batches b ON b.id = c.batch_id
	WHERE c.ended_at IS NULL AND b.tenant_id = $1),
jobs_of AS (
	SELECT l.labels, q.id, q.identity FROM live l, unnest($3::text[]) AS p (pool), LATERAL (
		SELECT j.id, j.identity FROM jobs j WHERE j.state = 'queued' AND j.pool = p.pool AND j.tenant_id = $1 AND j.batch_id = l.id
		ORDER BY j.tenant_id, j.batch_id, j.priority) q
	UNION ALL
	SELECT l.labels, q.id, q.identity FROM live l, LATERAL (
		SELECT j.id, j.identity FROM jobs j WHERE j.state = 'dispatched' AND j.tenant_id = $1 AND j.batch_id = l.id
		ORDER BY j.tenant_id, j.batch_id) q
	UNION ALL
	SELECT l.labels, q.id, q.identity FROM live l, LATERAL (
		SELECT j.id, j.identity FROM jobs j WHERE j.state = 'running' AND j.tenant_id = $1 AND j.batch_id = l.id
		ORDER BY j.tenant_id, j.batch_id) q)
SELECT id FROM jobs_of
WHERE labels || coalesce(('{' || rtrim(identity, ',') || '}')::jsonb -> 'labels', '{}') @> $2::jsonb
ORDER BY id`

var cancelMany = cancel(`SELECT id FROM unnest($1::uuid[]) AS u (id)`)

// CancelLabeled implements store.Scheduler. The ids are found at once and
// canceled in chunks, each with a deadline of its own.
func (s *Store) CancelLabeled(ctx context.Context, tenant string, labels map[string]string) (running []store.Canceling, ended int64, err error) {
	text := labelsText(labels)
	if text == nil {
		return nil, 0, fmt.Errorf("postgres: cancel by label: %w: there are no labels", job.ErrInvalid)
	}
	var ids []pgtype.UUID
	err = s.do(ctx, "find labels", func(ctx context.Context) error {
		t, err := s.knownTenant(ctx, tenant)
		if err != nil {
			return err
		}
		pools, err := s.Pools(ctx)
		if err != nil {
			return err
		}
		rows, err := s.pool.Query(ctx, labeled, t, *text, pools)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
		return err
	})
	for len(ids) > 0 && err == nil {
		chunk := ids[:min(cancelChunk, len(ids))]
		ids = ids[len(chunk):]
		err = s.do(ctx, "cancel by label", func(ctx context.Context) error {
			rows, err := s.record(ctx, cancelMany, chunk)
			for _, e := range rows {
				if e.state == job.Running {
					running = append(running, canceling(e))
				} else {
					ended++
				}
			}
			return err
		})
	}
	return running, ended, err
}
