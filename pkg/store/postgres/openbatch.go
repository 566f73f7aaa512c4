package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

var openBatch = keyGuard + `,
batch AS (
	INSERT INTO batches (id, tenant_id, name, labels, traceparent, label_caps)
	SELECT $4, $1, $5, $6, $7, $8 FROM go RETURNING id, tenant_id),` + batchExtras(9, false) + `
SELECT id FROM batch`

// OpenBatch implements store.Submitter.
func (s *Store) OpenBatch(ctx context.Context, b store.NewBatch) (id job.ID, existed bool, err error) {
	err = s.do(ctx, "open batch", func(ctx context.Context) error {
		tenant, err := s.tenantID(ctx, b.Tenant)
		if err != nil {
			return err
		}
		for {
			var made pgtype.UUID
			err := s.pool.QueryRow(ctx, openBatch, append([]any{tenant, b.Idempotency.Key, b.Idempotency.Hash, uuid(b.ID), b.Name,
				labelsText(b.Labels), b.TraceParent, jsonOrNull(b.LabelCaps)}, extrasOf(b)...)...).Scan(&made)
			if err == nil {
				id, existed = b.ID, false
				return nil
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			id, err = s.madeByKey(ctx, tenant, b.Idempotency)
			if err != nil || id != "" {
				existed = true
				return err
			}
		}
	})
	return id, existed, err
}

// appendJobs locks the batch row, so that a seal counts all or nothing of it.
var appendJobs = `
WITH batch AS (
	UPDATE batches SET appended = appended + $2, appended_at = now()
	WHERE id = $1 AND sealed_at IS NULL AND dropped_at IS NULL RETURNING id, tenant_id),` + insertJobs("batch", "batch.tenant_id", 3) + `
SELECT EXISTS (SELECT FROM batch)`

// AppendJobs implements store.Submitter.
func (s *Store) AppendJobs(ctx context.Context, batch job.ID, jobs []store.NewJob) error {
	cols, err := columnsOf(jobs)
	if err != nil {
		return translate("append jobs", err)
	}
	args := append([]any{uuid(batch), int64(len(jobs))}, cols.args()...)
	return s.do(ctx, "append jobs", func(ctx context.Context) error {
		var open bool
		if err := s.pool.QueryRow(ctx, appendJobs, args...).Scan(&open); err != nil {
			return err
		}
		if !open {
			return fmt.Errorf("%w: batch %s is not open", job.ErrConflict, batch)
		}
		return nil
	})
}

const sealBatch = `
WITH sealed AS (
	UPDATE batches SET sealed_at = now()
	WHERE id = $1 AND sealed_at IS NULL AND dropped_at IS NULL AND appended = $2 RETURNING id, appended),
counts AS (
	INSERT INTO batch_counts (batch_id, total, ended_at)
	SELECT id, appended, CASE WHEN appended = 0 THEN now() END FROM sealed),
client_leased AS (
	UPDATE batch_leases l SET until = now() + l.ttl * interval '1 millisecond' FROM sealed s WHERE l.batch_id = s.id)
SELECT EXISTS (SELECT FROM sealed)`

// SealBatch implements store.Submitter.
func (s *Store) SealBatch(ctx context.Context, batch job.ID, total int64) error {
	return s.do(ctx, "seal batch", func(ctx context.Context) error {
		var sealed bool
		if err := s.pool.QueryRow(ctx, sealBatch, uuid(batch), total).Scan(&sealed); err != nil || sealed {
			return err
		}
		var appended int64
		err := s.pool.QueryRow(ctx, `SELECT appended, sealed_at IS NOT NULL FROM batches WHERE id = $1 AND dropped_at IS NULL`,
			uuid(batch)).Scan(&appended, &sealed)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("%w: batch %s is not open", job.ErrConflict, batch)
		case err != nil || sealed && appended == total:
			return err
		}
		return fmt.Errorf("%w: batch %s has %d jobs, not %d", job.ErrConflict, batch, appended, total)
	})
}

// DropBatch implements store.Submitter. If it is interrupted, Reap goes on.
func (s *Store) DropBatch(ctx context.Context, batch job.ID) error {
	return s.do(ctx, "drop batch", func(ctx context.Context) error {
		if err := s.abandon(ctx, batch); err != nil {
			return err
		}
		_, err := s.removeDropped(ctx, batch, time.Time{})
		return err
	})
}

// removeDropped deletes the jobs of a dropped batch, then the batch. The
// scheduler never saw them: it takes jobs of sealed batches only. It stops at until, if
// that is not zero, and says whether all is done.
func (s *Store) removeDropped(ctx context.Context, batch job.ID, until time.Time) (done bool, err error) {
	pools, err := s.Pools(ctx)
	if err != nil {
		return false, err
	}
	for {
		if !until.IsZero() && !time.Now().Before(until) {
			return false, nil
		}
		tag, err := s.pool.Exec(ctx, `
			WITH gone AS (
				DELETE FROM live_jobs WHERE id IN (
					SELECT j.id FROM batches b, unnest($2::text[]) AS p (pool), LATERAL (
						SELECT id FROM live_jobs WHERE state = 'queued' AND pool = p.pool AND tenant_id = b.tenant_id AND batch_id = b.id
						ORDER BY tenant_id, batch_id, priority LIMIT 5000) j
					WHERE b.id = $1 AND b.dropped_at IS NOT NULL)
				RETURNING id)
			DELETE FROM live_specs s USING gone WHERE s.id = gone.id`, uuid(batch), pools)
		if err != nil {
			return false, err
		}
		if tag.RowsAffected() == 0 {
			break
		}
	}
	_, err = s.pool.Exec(ctx, `DELETE FROM batches WHERE id = $1 AND dropped_at IS NOT NULL`, uuid(batch))
	return err == nil, err
}

// Pools implements store.Scheduler, by stepping through the index from one to the
// next.
func (s *Store) Pools(ctx context.Context) (pools []string, err error) {
	err = s.urgent(ctx, "pools", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, queuedPools+`SELECT pool FROM pools WHERE pool IS NOT NULL`)
		if err != nil {
			return err
		}
		pools, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return pools, err
}

// poolsOf looks into each class for one job of a tenant.
const poolsOf = queuedPools + `
SELECT p.pool FROM pools p, LATERAL (
	SELECT FROM live_jobs j WHERE j.state = 'queued' AND j.pool = p.pool AND j.tenant_id = $1
	ORDER BY j.tenant_id, j.batch_id, j.priority LIMIT 1) mine
WHERE p.pool IS NOT NULL`

// PoolsOf implements store.Scheduler.
func (s *Store) PoolsOf(ctx context.Context, tenant string) (pools []string, err error) {
	err = s.do(ctx, "pools of a tenant", func(ctx context.Context) error {
		t, err := s.knownTenant(ctx, tenant)
		if err != nil {
			return err
		}
		rows, err := s.pool.Query(ctx, poolsOf, t)
		if err != nil {
			return err
		}
		pools, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return pools, err
}

const queuedPools = `
WITH RECURSIVE pools AS (
	(SELECT pool FROM live_jobs WHERE state = 'queued' ORDER BY pool LIMIT 1)
	UNION ALL
	SELECT (SELECT j.pool FROM live_jobs j WHERE j.state = 'queued' AND j.pool > p.pool ORDER BY j.pool LIMIT 1)
	FROM pools p WHERE p.pool IS NOT NULL)
`
