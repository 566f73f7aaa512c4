package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// retrySlice is how many jobs one statement copies: it takes a second or two, for any size of the batch.
const retrySlice = 20_000

// openRetry makes an open batch that is to be filled from another one ($5).
const openRetry = keyGuard + `,
batch AS (
	INSERT INTO batches (id, tenant_id, name, labels, label_caps, traceparent, retry_of)
	SELECT $4, $1, coalesce(nullif($6, ''), old.name), old.labels, old.label_caps, $7, old.id
	FROM go, batches old WHERE old.id = $5 AND old.tenant_id = $1 RETURNING id),
told AS (
	INSERT INTO callbacks (batch_id, delivery, tenant_id, url, secret)
	SELECT batch.id, gen_random_uuid(), k.tenant_id, k.url, k.secret FROM batch, callbacks k WHERE k.batch_id = $5)
SELECT id FROM batch`

// fillRetry copies the next $4 jobs of some days that had no success, of a batch ($2), after the result $3,
// into an open one ($1). $5 to $7: see retryBatch.
func fillRetry(days pg.Days) string {
	return `
WITH failed AS MATERIALIZED (
	SELECT f.id, f.seq, ($5::uuid[])[f.n] AS fresh, ($6::text[])[f.n] AS identity, ($7::text[])[f.n] AS trace
	FROM (SELECT r.id, r.seq, row_number() OVER (ORDER BY r.seq) AS n FROM results r
		WHERE r.batch_id = $2 AND r.seq > greatest($3::bigint, 0) AND r.seq > 0 AND r.outcome <> 'succeeded' AND ` + days.In("r.id") + ` ORDER BY r.seq LIMIT $4) f),
batch AS (
	UPDATE batches SET appended = appended + (SELECT count(*) FROM failed), appended_at = now(),
		first_job = least(first_job, ($5::uuid[])[1]), last_job = greatest(last_job, ($5::uuid[])[cardinality($5::uuid[])]),
		spanned = spanned + (SELECT count(*) FROM failed)
	WHERE id = $1 AND sealed_at IS NULL AND dropped_at IS NULL RETURNING id, tenant_id),
filled AS (
	INSERT INTO jobs (batch_id, tenant_id, id, pool, priority, max_attempts, retry_on, expires_at, traceparent, identity, lane, caps)
	SELECT batch.id, batch.tenant_id, failed.fresh, j.pool, j.priority, j.max_attempts, j.retry_on, now() + (` + waitOf("(SELECT sealed_at FROM batches WHERE id = $2)") + `),
		nullif(failed.trace, ''), regexp_replace(j.identity, '"trace_id":"[0-9a-f]*",$', '') || failed.identity, j.lane, j.caps
	FROM batch, failed, LATERAL (SELECT * FROM jobs j WHERE j.id = failed.id AND ` + days.In("j.id") + ` OFFSET 0) j),
specified AS (
	INSERT INTO specs (id, spec)
	SELECT failed.fresh, s.spec FROM batch, failed, LATERAL (SELECT s.spec FROM specs s WHERE s.id = failed.id AND ` + days.In("s.id") + ` OFFSET 0) s)
SELECT (SELECT count(*) FROM failed), (SELECT coalesce(max(seq), 0) FROM failed), EXISTS (SELECT FROM batch)`
}

// retryLarge is RetryBatch in slices, as an upload: the batch is invisible before it is sealed, and dropped if it never
// is.
func (s *Submitter) retryLarge(ctx context.Context, old *job.Batch, as store.NewBatch) (made job.ID, err error) {
	made, existed, err := s.openRetry(ctx, old, as)
	if err != nil || existed {
		return made, err
	}
	total, err := s.fillRetry(ctx, old.ID, as)
	if err == nil {
		err = s.SealBatch(ctx, as.ID, total)
	}
	if err != nil {
		_ = s.DropBatch(context.WithoutCancel(ctx), as.ID) // if this fails, Reap drops it later; a sealed batch stays
		return "", err
	}
	return made, nil
}

func (s *Submitter) openRetry(ctx context.Context, old *job.Batch, as store.NewBatch) (made job.ID, existed bool, err error) {
	err = s.db.Do(ctx, "open a retry", func(ctx context.Context) error {
		tenant, err := s.db.TenantID(ctx, old.Tenant)
		if err != nil {
			return err
		}
		for {
			var id pgtype.UUID
			err := s.db.Pool.QueryRow(ctx, openRetry, tenant, as.Idempotency.Key, as.Idempotency.Hash, pg.UUID(as.ID), pg.UUID(old.ID),
				as.Name, as.TraceParent).Scan(&id)
			if err == nil {
				made, existed = as.ID, false
				return nil
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			if made, err = s.lookUpKey(ctx, tenant, as.Idempotency); err != nil || made != "" {
				existed = true
				return err
			}
		}
	})
	return made, existed, err
}

// fillRetry returns how many jobs it has copied. It goes through the days of the old batch from the first on.
func (s *Submitter) fillRetry(ctx context.Context, old job.ID, as store.NewBatch) (total int64, err error) {
	var windows []pg.Days
	err = s.db.Do(ctx, "days of a batch", func(ctx context.Context) error {
		days, err := s.read.DaysOf(ctx, old)
		if err == nil {
			windows, err = s.db.Windows(ctx, days.First, days.Below)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, days := range slices.Backward(windows) {
		n, err := s.fillRetryOf(ctx, days, old, as)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// fillRetryOf copies the jobs of some days.
func (s *Submitter) fillRetryOf(ctx context.Context, days pg.Days, old job.ID, as store.NewBatch) (total int64, err error) {
	for after := int64(0); ; {
		ids, identities, traces, err := freshJobs(as, s.cfg.RetrySlice)
		if err != nil {
			return total, err
		}
		var n int64
		var open bool
		if err := s.db.Do(ctx, "fill a retry", func(ctx context.Context) error {
			return s.db.Pool.QueryRow(ctx, fillRetry(days), pg.UUID(as.ID), pg.UUID(old), after, s.cfg.RetrySlice, ids, identities, traces).Scan(&n, &after, &open)
		}); err != nil {
			return total, err
		}
		if !open {
			return total, fmt.Errorf("postgres: fill a retry: %w: batch %s is not open", job.ErrConflict, as.ID)
		}
		total += n
		if n < s.cfg.RetrySlice {
			return total, nil
		}
	}
}

// retryBatch copies the jobs without success into a new batch, in one statement. All of them are of a few days. $8 are
// their new ids, as many as there are jobs, $10 their traces, and $9 the part of their identity that depends on these.
// The assignment of ids to jobs is arbitrary.
func retryBatch(days pg.Days) string {
	return keyGuard + `,
old AS (
	SELECT b.* FROM go, batches b WHERE b.id = $5 AND b.tenant_id = $1),
failed AS MATERIALIZED (
	SELECT f.id, ($8::uuid[])[f.n] AS fresh, ($9::text[])[f.n] AS identity, ($10::text[])[f.n] AS trace
	FROM (SELECT r.id, row_number() OVER (ORDER BY r.seq) AS n FROM old, results r
	WHERE r.batch_id = old.id AND r.seq > 0 AND r.outcome <> 'succeeded' AND ` + days.In("r.id") + `) f),
batch AS (
	INSERT INTO batches (id, tenant_id, name, labels, label_caps, traceparent, retry_of, appended, sealed_at, first_job, last_job, spanned)
	SELECT $4, $1, coalesce(nullif($6, ''), old.name), old.labels, old.label_caps, $7, old.id, (SELECT count(*) FROM failed), now(),
		($8::uuid[])[1], ($8::uuid[])[cardinality($8::uuid[])], (SELECT count(*) FROM failed) FROM old
	RETURNING id, appended),
counts AS (
	INSERT INTO batch_counts (batch_id, total, ended_at)
	SELECT id, appended, CASE WHEN appended = 0 THEN now() END FROM batch), -- none is left of a batch that is being forgotten
told AS (
	INSERT INTO callbacks (batch_id, delivery, tenant_id, url, secret)
	SELECT batch.id, gen_random_uuid(), k.tenant_id, k.url, k.secret FROM batch, callbacks k WHERE k.batch_id = $5),
filled AS (
	INSERT INTO jobs (batch_id, tenant_id, id, pool, priority, max_attempts, retry_on, expires_at, traceparent, identity, lane, caps)
	SELECT batch.id, $1, failed.fresh, j.pool, j.priority, j.max_attempts, j.retry_on, now() + (` + waitOf("(SELECT sealed_at FROM old)") + `),
		nullif(failed.trace, ''), regexp_replace(j.identity, '"trace_id":"[0-9a-f]*",$', '') || failed.identity, j.lane, j.caps
	FROM batch, failed, LATERAL (SELECT * FROM jobs j WHERE j.id = failed.id AND ` + days.In("j.id") + ` OFFSET 0) j),
specified AS (
	INSERT INTO specs (id, spec)
	SELECT failed.fresh, s.spec FROM failed, LATERAL (SELECT s.spec FROM specs s WHERE s.id = failed.id AND ` + days.In("s.id") + ` OFFSET 0) s)
SELECT EXISTS (SELECT FROM batch)`
}

// RetryBatch implements store.Submitter.
func (s *Submitter) RetryBatch(ctx context.Context, batch job.ID, as store.NewBatch) (made job.ID, err error) {
	old, err := s.read.Batch(ctx, as.Tenant, batch)
	if err != nil {
		return "", err
	}
	if !old.Done() || old.Outcomes[job.Succeeded] == old.Total { // a finished batch stays finished
		return "", fmt.Errorf("postgres: %w", fmt.Errorf("%w: batch %s is not done or has nothing to retry", job.ErrConflict, batch))
	}
	n := old.Total - old.Outcomes[job.Succeeded]
	var days pg.Days
	if err := s.db.Do(ctx, "days of a batch", func(ctx context.Context) (err error) {
		days, err = s.read.DaysOf(ctx, batch)
		return err
	}); err != nil {
		return "", err
	}
	if n > s.cfg.RetrySlice || days.Count() > pg.WindowDays {
		return s.retryLarge(ctx, old, as)
	}
	ids, identities, traces, err := freshJobs(as, n)
	if err != nil {
		return "", err
	}
	defer s.db.News.Requeued()
	err = s.db.Do(ctx, "retry batch", func(ctx context.Context) error {
		tenant, err := s.db.TenantID(ctx, old.Tenant)
		if err != nil {
			return err
		}
		for {
			made = as.ID
			written, err := s.writeSealed(ctx, tenant, as.ID, retryBatch(days), tenant, as.Idempotency.Key, as.Idempotency.Hash, pg.UUID(as.ID), pg.UUID(batch),
				as.Name, as.TraceParent, ids, identities, traces)
			if pg.IsUniqueViolation(err) {
				return s.explainDuplicate(ctx, tenant, as.ID, err)
			}
			if err != nil || written {
				return err
			}
			if made, err = s.lookUpKey(ctx, tenant, as.Idempotency); err != nil || made != "" {
				return err
			}
		}
	})
	if err != nil {
		return "", err
	}
	return made, nil
}

// freshJobs returns the ids of n new jobs, and the trace context of each.
func freshJobs(as store.NewBatch, n int64) (ids []pgtype.UUID, identities, traces []string, err error) {
	ids, identities, traces = make([]pgtype.UUID, n), make([]string, n), make([]string, n)
	for i := range ids {
		id := job.NewID()
		ids[i], traces[i] = pg.UUID(id), as.TraceParent
		if as.Trace != nil {
			traces[i] = as.Trace(id, "")
		}
		if identities[i], err = format.Identity([]byte("{}"), traces[i]); err != nil {
			return nil, nil, nil, err
		}
	}
	return ids, identities, traces, nil
}
