package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

var openBatch = keyGuard + `,
batch AS (
	INSERT INTO batches (id, tenant_id, name, labels, traceparent, label_caps, next_chunk)
	SELECT $4, $1, $5, $6, $7, $8, $12::bigint FROM go RETURNING id, tenant_id),` + batchExtras(9, false) + `,
upload AS (INSERT INTO uploads (batch_id, defaults) SELECT id, $13 FROM batch WHERE $12::bigint IS NOT NULL)
SELECT id FROM batch`

// OpenBatch implements store.Submitter.
func (s *Submitter) OpenBatch(ctx context.Context, b store.NewBatch) (id job.ID, existed bool, err error) {
	return s.open(ctx, b, nil, nil)
}

// open opens a batch; a batch in chunks begins with the first, and has defaults.
func (s *Submitter) open(ctx context.Context, b store.NewBatch, first *int64, defaults *string) (id job.ID, existed bool, err error) {
	err = s.db.Do(ctx, "open batch", func(ctx context.Context) error {
		tenant, err := s.db.TenantID(ctx, b.Tenant)
		if err != nil {
			return err
		}
		for {
			var made pgtype.UUID
			err := s.db.Pool.QueryRow(ctx, openBatch, slices.Concat([]any{tenant, b.Idempotency.Key, b.Idempotency.Hash, pg.UUID(b.ID), b.Name,
				pg.LabelsText(b.Labels), b.TraceParent, pg.CapsOrNull(b.LabelCaps)}, extrasOf(b), []any{first, defaults})...).Scan(&made)
			if err == nil {
				id, existed = b.ID, false
				return nil
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			id, err = s.lookUpKey(ctx, tenant, b.Idempotency)
			if err != nil || id != "" {
				existed = true
				return err
			}
		}
	})
	return id, existed, err
}

// appendJobs locks the batch row, so a seal counts all of its jobs or none.
var appendJobs = `
WITH batch AS (
	UPDATE batches SET appended = appended + $2, appended_at = now(),
		first_job = least(first_job, $15), last_job = greatest(last_job, $16), spanned = spanned + $2, expiring = expiring OR $17
	WHERE id = $1 AND sealed_at IS NULL AND dropped_at IS NULL RETURNING id, tenant_id),` + insertJobs("batch", "batch.tenant_id", 3, true) + `
SELECT coalesce((SELECT tenant_id FROM batch), 0)`

// AppendJobs implements store.Submitter.
func (s *Submitter) AppendJobs(ctx context.Context, batch job.ID, jobs []store.NewJob) error {
	cols, err := columnsOf(jobs)
	if err != nil {
		return pg.Translate("append jobs", err)
	}
	args := slices.Concat([]any{pg.UUID(batch), int64(len(jobs))}, cols.args(), cols.span(), []any{cols.expiring()})
	return s.db.Do(ctx, "append jobs", func(ctx context.Context) error {
		var tenant int32
		if err := s.db.Pool.QueryRow(ctx, appendJobs, args...).Scan(&tenant); err != nil {
			return err
		}
		if tenant == 0 {
			return fmt.Errorf("%w: batch %s is not open", job.ErrConflict, batch)
		}
		s.db.News.Queued(cols.queues(tenant)...)
		return nil
	})
}

// sealLock lets the batches of a tenant be sealed one after the other, to the ends of their transactions: the times at which they are sealed
// are then in the order in which they become visible, and a client that reads the list from the newest on misses none. It
// is taken last in a transaction.
const sealLock = `(SELECT pg_advisory_xact_lock(hashtextextended('assay seals', b.tenant_id)) FROM batches b WHERE b.id = $1)`

const sealBatch = `
WITH sealed AS (
	UPDATE batches SET sealed_at = clock_timestamp() FROM ` + sealLock + ` turn
	WHERE id = $1 AND sealed_at IS NULL AND dropped_at IS NULL AND appended = $2 RETURNING id, appended, expiring),
counts AS (
	INSERT INTO batch_counts (batch_id, total, ended_at)
	SELECT id, appended, CASE WHEN appended = 0 THEN now() END FROM sealed),
client_leased AS (
	UPDATE batch_leases l SET until = now() + l.ttl * interval '1 millisecond' FROM sealed s WHERE l.batch_id = s.id)
SELECT EXISTS (SELECT FROM sealed), EXISTS (SELECT FROM sealed WHERE expiring)`

// SealBatch implements store.Submitter.
func (s *Submitter) SealBatch(ctx context.Context, batch job.ID, total int64) error {
	var expiring bool
	err := s.seal(ctx, batch, total, &expiring)
	if err == nil && expiring {
		_ = s.redate(ctx, batch, time.Now().Add(s.cfg.DropTime)) // else Reap does
	}
	return err
}

func (s *Submitter) seal(ctx context.Context, batch job.ID, total int64, expiring *bool) error {
	return s.db.Do(ctx, "seal batch", func(ctx context.Context) error {
		defer s.db.News.Requeued()
		var sealed bool
		if err := s.db.Pool.QueryRow(ctx, sealBatch, pg.UUID(batch), total).Scan(&sealed, expiring); err != nil || sealed {
			return err
		}
		var appended int64
		err := s.db.Pool.QueryRow(ctx, `SELECT appended, sealed_at IS NOT NULL FROM batches WHERE id = $1 AND dropped_at IS NULL`,
			pg.UUID(batch)).Scan(&appended, &sealed)
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
func (s *Submitter) DropBatch(ctx context.Context, batch job.ID) error {
	return s.db.Do(ctx, "drop batch", func(ctx context.Context) error {
		if err := s.abandon(ctx, batch); err != nil {
			return err
		}
		_, err := s.removeDropped(ctx, batch, time.Time{})
		return err
	})
}

// removeDropped deletes the jobs of a dropped batch, then the batch. The scheduler never saw them: it takes jobs of
// sealed batches only. It stops at until, if that is not zero, and reports whether all is done.
func (s *Submitter) removeDropped(ctx context.Context, batch job.ID, until time.Time) (done bool, err error) {
	pools, err := s.read.Pools(ctx)
	if err != nil {
		return false, err
	}
	for {
		if !until.IsZero() && !time.Now().Before(until) {
			return false, nil
		}
		tag, err := s.db.Pool.Exec(ctx, `
			WITH gone AS (
				DELETE FROM live_jobs WHERE id IN (
					SELECT j.id FROM batches b, unnest($2::text[]) AS p (pool), LATERAL (
						SELECT id FROM live_jobs WHERE state = 'queued' AND pool = p.pool AND tenant_id = b.tenant_id AND batch_id = b.id
						ORDER BY tenant_id, batch_id, priority LIMIT 5000) j
					WHERE b.id = $1 AND b.dropped_at IS NOT NULL)
				RETURNING id)
			DELETE FROM live_specs s USING gone WHERE s.id = gone.id`, pg.UUID(batch), pools)
		if err != nil {
			return false, err
		}
		if tag.RowsAffected() == 0 {
			break
		}
	}
	_, err = s.db.Pool.Exec(ctx, `DELETE FROM batches WHERE id = $1 AND dropped_at IS NOT NULL`, pg.UUID(batch))
	return err == nil, err
}

// reapOpenBatches drops abandoned open batches and those that have been open for as long as a job may wait, and
// finishes interrupted drops. It takes a second in all, as other cancels do (package lifecycle).
func (s *Submitter) reapOpenBatches(ctx context.Context, st *store.ReapStats) error {
	batches, err := s.db.QueryBatches(ctx, `
		SELECT id FROM batches WHERE sealed_at IS NULL
			AND (dropped_at IS NOT NULL OR appended_at < now() - $1 * interval '1 millisecond'
				OR $2::bigint > 0 AND created_at < now() - $2::bigint * interval '1 millisecond')`, s.cfg.OpenBatchTTL.Milliseconds(), s.cfg.QueueLife.Milliseconds())
	if err != nil {
		return err
	}
	until := time.Now().Add(s.cfg.DropTime)
	var errs []error
	for _, b := range batches {
		var done bool
		errs = append(errs, s.db.Do(ctx, "reap a batch", func(ctx context.Context) (err error) {
			if err := s.abandon(ctx, b); err != nil {
				return err
			}
			done, err = s.removeDropped(ctx, b, until)
			return err
		}))
		if done {
			st.BatchesDropped++
		}
	}
	return errors.Join(errs...)
}

// forgetKeys deletes old idempotency keys, the oldest first.
func (s *Submitter) forgetKeys(ctx context.Context) error {
	return s.db.Drain(ctx, "forget keys", `
		DELETE FROM idempotency_keys k USING (
			SELECT tenant_id, key FROM idempotency_keys WHERE created_at < now() - $1 * interval '1 millisecond'
			ORDER BY created_at LIMIT $2 OFFSET $3 FOR UPDATE SKIP LOCKED) old
		WHERE k.tenant_id = old.tenant_id AND k.key = old.key`, s.cfg.KeyTTL)
}

// Sweep is this package's part of store.Scheduler's Reap.
func (s *Submitter) Sweep(ctx context.Context, st *store.ReapStats) error {
	return errors.Join(s.redateSealed(ctx), s.reapOpenBatches(ctx, st), s.forgetKeys(ctx))
}
