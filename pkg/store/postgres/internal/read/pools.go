package read

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Pools implements store.Scheduler, by stepping through the index from one to the
// next.
func (s *Reader) Pools(ctx context.Context) (pools []string, err error) {
	err = s.db.Urgent(ctx, "pools", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, QueuedPools+`SELECT pool FROM pools WHERE pool IS NOT NULL`)
		if err != nil {
			return err
		}
		pools, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return pools, err
}

// poolsOf looks into each class for one job of a tenant.
const poolsOf = QueuedPools + `
SELECT p.pool FROM pools p, LATERAL (
	SELECT FROM live_jobs j WHERE j.state = 'queued' AND j.pool = p.pool AND j.tenant_id = $1
	ORDER BY j.tenant_id, j.batch_id, j.priority LIMIT 1) mine
WHERE p.pool IS NOT NULL`

// PoolsOf implements store.Scheduler.
func (s *Reader) PoolsOf(ctx context.Context, tenant string) (pools []string, err error) {
	err = s.db.Do(ctx, "pools of a tenant", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, poolsOf, t)
		if err != nil {
			return err
		}
		pools, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return pools, err
}

// QueuedPools is the CTE "pools": the classes that have queued jobs, and NULL.
const QueuedPools = `
WITH RECURSIVE pools AS (
	(SELECT pool FROM live_jobs WHERE state = 'queued' ORDER BY pool LIMIT 1)
	UNION ALL
	SELECT (SELECT j.pool FROM live_jobs j WHERE j.state = 'queued' AND j.pool > p.pool ORDER BY j.pool LIMIT 1)
	FROM pools p WHERE p.pool IS NOT NULL)
`
