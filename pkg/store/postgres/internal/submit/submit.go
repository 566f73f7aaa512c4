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
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// keyGuard begins the statements that a key makes idempotent: $1 tenant, $2 key, $3 hash, $4 the id of the new object.
// If the key exists, or a concurrent request commits it first, "go" is empty and the whole statement does nothing.
const keyGuard = `
WITH claimed AS (
	INSERT INTO idempotency_keys (tenant_id, key, hash, made)
	SELECT $1, $2, $3, $4 WHERE $2 <> '' ON CONFLICT DO NOTHING RETURNING made),
go AS (SELECT 1 WHERE $2 = '' OR EXISTS (SELECT FROM claimed))`

// notSealed is added to expires_at of the jobs of an open batch, so that they are not overdue. The time that they may
// wait begins with the seal, which subtracts it (redate).
const (
	notSealed   = `interval '876000 hours'`
	isNotSealed = `expires_at > now() + interval '438000 hours'`
)

// insertJobs is the CTEs that insert jobs and their specs from arrays, $first and the eleven after it; batch names the
// row with their batch, and open means that this statement does not seal the batch.
func insertJobs(batch, tenant string, first int, open bool) string {
	expires := `now() + i.expires * interval '1 millisecond'`
	if open {
		expires += ` + ` + notSealed
	}
	p := func(i int) int { return first + i }
	return fmt.Sprintf(`
filled AS (
	INSERT INTO jobs (batch_id, tenant_id, id, pool, priority, max_attempts, retry_on, expires_at, traceparent, identity, lane, caps, cache_key)
	SELECT %[1]s.id, %[2]s, i.id, i.pool, i.priority, i.max_attempts, nullif(i.retry_on, ''),
		CASE WHEN i.expires > 0 THEN %[15]s END, nullif(i.traceparent, ''), i.identity, i.lane, i.caps, i.cache_key
	FROM %[1]s, unnest($%[3]d::uuid[], $%[4]d::text[], $%[5]d::integer[], $%[6]d::integer[], $%[7]d::text[], $%[8]d::bigint[], $%[9]d::text[], $%[10]d::text[],
		$%[12]d::integer[], $%[13]d::text[], $%[14]d::bytea[]) AS i (id, pool, priority, max_attempts, retry_on, expires, traceparent, identity, lane, caps, cache_key)),
specified AS (
	INSERT INTO specs (id, spec)
	SELECT i.id, i.spec FROM %[1]s, unnest($%[3]d::uuid[], $%[11]d::text[]) AS i (id, spec))`,
		batch, tenant, p(0), p(1), p(2), p(3), p(4), p(5), p(6), p(7), p(8), p(9), p(10), p(11), expires)
}

// batchExtras is the CTEs that insert the callback and the lease of a batch, from three arguments from $first on: url
// and secret of its callback, and its lease in milliseconds, which begins when the batch is sealed.
func batchExtras(first int, sealed bool) string {
	until := `'infinity'::timestamptz`
	if sealed {
		until = fmt.Sprintf(`now() + $%d::bigint * interval '1 millisecond'`, first+2)
	}
	return fmt.Sprintf(`
told AS (
	INSERT INTO callbacks (batch_id, delivery, tenant_id, url, secret)
	SELECT id, gen_random_uuid(), tenant_id, $%[1]d, $%[2]d FROM batch WHERE $%[1]d <> ''),
client_leased AS (
	INSERT INTO batch_leases (batch_id, ttl, until)
	SELECT id, $%[3]d::bigint, %[4]s FROM batch WHERE $%[3]d::bigint > 0)`, first, first+1, first+2, until)
}

func extrasOf(b store.NewBatch) []any {
	c := job.Callback{}
	if b.Callback != nil {
		c = *b.Callback
	}
	return []any{c.URL, c.SecretRef, b.Lease.Milliseconds()}
}

var submitBatch = keyGuard + `,
batch AS (
	INSERT INTO batches (id, tenant_id, name, labels, traceparent, appended, label_caps, sealed_at, first_job, last_job, spanned)
	SELECT $4, $1, $5, $6, $7, $8, $9, now(), $25, $26, $8 FROM go RETURNING id, tenant_id),` + batchExtras(10, true) + `,
counts AS (
	INSERT INTO batch_counts (batch_id, total, ended_at)
	SELECT id, $8::bigint, CASE WHEN $8::bigint = 0 THEN now() END FROM batch),` + insertJobs("batch", "$1::integer", 13, false) + `
SELECT EXISTS (SELECT FROM batch)`

// SubmitBatch implements store.Submitter.
func (s *Submitter) SubmitBatch(ctx context.Context, b store.NewBatch, jobs []store.NewJob) (job.ID, error) {
	cols, err := columnsOf(jobs)
	if err != nil {
		return "", pg.Translate("submit batch", err)
	}
	var made job.ID
	err = s.db.Do(ctx, "submit batch", func(ctx context.Context) error {
		tenant, err := s.db.TenantID(ctx, b.Tenant)
		if err != nil {
			return err
		}
		defer func() { s.db.News.Queued(cols.queues(tenant)...) }()
		args := slices.Concat([]any{tenant, b.Idempotency.Key, b.Idempotency.Hash, pg.UUID(b.ID), b.Name, pg.LabelsText(b.Labels),
			b.TraceParent, int64(len(jobs)), pg.CapsOrNull(b.LabelCaps)}, extrasOf(b), cols.args(), cols.span())
		for {
			made = b.ID
			written, err := s.writeSealed(ctx, tenant, b.ID, submitBatch, args...)
			if pg.IsUniqueViolation(err) {
				return s.explainDuplicate(ctx, tenant, b.ID, err)
			}
			if err != nil || written {
				return err
			}
			made, err = s.lookUpKey(ctx, tenant, b.Idempotency)
			if err != nil || made != "" {
				return err
			}
		}
	})
	if err != nil {
		return "", err
	}
	return made, nil
}

// explainDuplicate explains a doubled id: the caller repeats itself after an unknown
// commit if the batch is there, else its ids are wrong.
func (s *Submitter) explainDuplicate(ctx context.Context, tenant int32, id job.ID, cause error) error {
	var same bool
	err := s.db.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM batches WHERE id = $1 AND tenant_id = $2 AND sealed_at IS NOT NULL)`,
		pg.UUID(id), tenant).Scan(&same)
	if err != nil || same {
		return err
	}
	return cause
}

// readKey returns the id that a key made, whether a batch has it, and whether that batch may be
// replaced: it is open and comes in one request.
const readKey = `
SELECT k.made, k.hash, b.id IS NOT NULL, b.id IS NOT NULL AND b.sealed_at IS NULL AND b.next_chunk IS NULL
FROM idempotency_keys k LEFT JOIN batches b ON b.id = k.made WHERE k.tenant_id = $1 AND k.key = $2`

// lookUpKey returns the id that the first request with this key made. It returns job.ErrKeyUsed
// if the body of that request was another, and job.ErrErased if its job or batch was erased.
//
// A batch that is still open is given up for the new request. The id is then empty, as it
// is when the key was forgotten in between, and the caller tries again.
func (s *Submitter) lookUpKey(ctx context.Context, tenant int32, key store.Idempotency) (job.ID, error) {
	var id pgtype.UUID
	var hash string
	var isBatch, isOpen bool
	err := s.db.Pool.QueryRow(ctx, readKey, tenant, key.Key).Scan(&id, &hash, &isBatch, &isOpen)
	made := pg.JobID(id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", nil
	case err != nil:
		return "", err
	case hash != key.Hash: // check this first: a different request changes nothing
		return "", fmt.Errorf("%w: the key %q came with another body before; use another key", job.ErrKeyUsed, key.Key)
	case isOpen:
		return "", s.abandon(ctx, made)
	case isBatch:
		return made, nil
	}
	var isJob bool
	err = s.db.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM jobs WHERE id = $1 AND `+pg.OnDay("id", made)+`)`, id).Scan(&isJob)
	if err == nil && !isJob {
		err = fmt.Errorf("%w: the key %q made %s, which was erased; use another key to run it again", job.ErrErased, key.Key, made)
	}
	return made, err
}

// abandon marks an open batch as dropped and frees its key, unless the batch is sealed first.
func (s *Submitter) abandon(ctx context.Context, batch job.ID) error {
	_, err := s.db.Pool.Exec(ctx, `
		WITH dropped AS (
			UPDATE batches SET dropped_at = now() WHERE id = $1 AND sealed_at IS NULL AND dropped_at IS NULL RETURNING id, tenant_id)
		DELETE FROM idempotency_keys k USING dropped d WHERE k.tenant_id = d.tenant_id AND k.made = d.id`, pg.UUID(batch))
	return err
}

// submitJob is SubmitJob's only round trip. It issues the first generation at once if nothing is queued in the classes
// $20 (the job's and its rivals), their window $5 has room, the tenant is below its limit, and the job has no caps:
// only the scheduler counts those. $17 is the worker that then runs it, under a lease of $18 milliseconds, as the
// process $19. It also returns the tenant of a job queued ahead, if any, and whether the tenant has a limit.
//
// Without counts it is for a job that a worker runs at once, of a tenant without a limit; if the tenant has one, the
// job is queued. The counts cost even when they count nothing: they are a sixth of the statement.
func submitJob(counts bool) string {
	window, room := "", "WHEN t.max_running IS NOT NULL THEN false"
	if counts {
		window = `WHEN $17 = '' AND $5 <= (SELECT count(*) FROM live_jobs WHERE state = 'dispatched' AND pool = ANY ($20::text[])) THEN false`
		room = `WHEN t.max_running <= (SELECT count(*) FROM live_jobs WHERE state = 'dispatched' AND tenant_id = $1)
			+ (SELECT count(*) FROM live_jobs WHERE state = 'running' AND tenant_id = $1) THEN false`
	}
	return keyGuard + `,
ahead AS MATERIALIZED (
	SELECT first.tenant_id FROM unnest($20::text[]) AS c (pool), LATERAL (
		SELECT j.tenant_id FROM live_jobs j WHERE j.state = 'queued' AND j.pool = c.pool ORDER BY j.tenant_id, j.batch_id, j.priority LIMIT 1) first
	WHERE $5::bigint > 0 AND $14 = 0 LIMIT 1),
now_or_later AS MATERIALIZED ( -- else all of it is done for each use of at_once
	SELECT t.max_running IS NOT NULL AS limited,
		CASE WHEN $5::bigint = 0 OR $14 > 0 OR EXISTS (SELECT FROM ahead) THEN false
		` + window + `
		WHEN t.paused_at IS NOT NULL THEN false
		` + room + `
		ELSE true END AS at_once
	FROM go, tenants t WHERE t.id = $1),
specified AS (INSERT INTO specs (id, spec) SELECT $4, $13 FROM go)
INSERT INTO jobs (id, tenant_id, pool, priority, max_attempts, retry_on, expires_at, traceparent, identity, lane, caps, cache_key,
	state, dispatch_gen, dispatched_at, published_at, lease, worker, worker_since, started_at, lease_until)
SELECT $4, $1, $6, $7, $8, nullif($9, ''), CASE WHEN $10 > 0 THEN now() + $10::bigint * interval '1 millisecond' END,
	nullif($11, ''), $12, $14::integer, $15, $16,
	CASE WHEN NOT at_once THEN 'queued' WHEN $17 = '' THEN 'dispatched' ELSE 'running' END, CASE WHEN at_once THEN 1 ELSE 0 END,
	CASE WHEN at_once THEN now() END, CASE WHEN at_once THEN now() END,
	CASE WHEN at_once AND $17 <> '' THEN nextval('leases') ELSE 0 END, CASE WHEN at_once THEN nullif($17, '') END,
	CASE WHEN at_once AND $17 <> '' THEN $19::timestamptz END,
	CASE WHEN at_once AND $17 <> '' THEN now() END,
	CASE WHEN at_once AND $17 <> '' THEN now() + $18::bigint * interval '1 millisecond' END
FROM now_or_later
RETURNING dispatch_gen, lease, coalesce((SELECT tenant_id FROM ahead), 0), (SELECT limited FROM now_or_later)`
}

var submitCounted, submitUncounted = submitJob(true), submitJob(false)

// overtake runs the job $1, queued just now, at once on the worker $3, under a lease of $4 milliseconds, as the process
// $5, if the scheduler would pick it next anyway and a worker has room. That is the case if all other jobs queued in
// its classes $6 belong to one tenant, $7, that runs as many as its weight is worth, and the job's own tenant, $2, has
// no other job. With the scheduler, the job would wait behind the jobs on their way to workers.
const overtake = `
UPDATE live_jobs mine SET state = 'running', dispatch_gen = 1, dispatched_at = now(), published_at = now(), lease = nextval('leases'),
	worker = $3, worker_since = $5, started_at = now(), lease_until = now() + $4::bigint * interval '1 millisecond'
FROM tenants me, tenants they
WHERE mine.id = $1 AND mine.state || '' = 'queued' AND NOT mine.cancel_requested
	AND me.id = $2 AND me.paused_at IS NULL AND me.max_running IS NULL AND they.id = $7
	AND NOT EXISTS (SELECT FROM live_jobs j WHERE j.state = 'dispatched' AND j.tenant_id = $2)
	AND NOT EXISTS (SELECT FROM live_jobs j WHERE j.state = 'running' AND j.tenant_id = $2)
	AND they.weight <= me.weight * (SELECT count(*) FROM (
		SELECT FROM live_jobs j WHERE j.state = 'running' AND j.tenant_id = $7 ORDER BY j.tenant_id, j.batch_id LIMIT 100) few)
	AND NOT EXISTS (SELECT FROM unnest($6::text[]) AS c (pool),
		(VALUES (0, least($2::integer, $7::integer)), (least($2, $7), greatest($2, $7)), (greatest($2, $7), 2147483647)) AS others (above, below), LATERAL (
		SELECT FROM live_jobs j WHERE j.state = 'queued' AND j.pool = c.pool AND j.tenant_id > others.above AND j.tenant_id < others.below
		ORDER BY j.tenant_id, j.batch_id, j.priority LIMIT 1) other)
	AND NOT EXISTS (SELECT FROM unnest($6::text[]) AS c (pool), LATERAL (
		SELECT j.id FROM live_jobs j WHERE j.state = 'queued' AND j.pool = c.pool AND j.tenant_id = $2
		ORDER BY j.tenant_id, j.batch_id, j.priority LIMIT 2) own WHERE own.id <> $1)
RETURNING mine.dispatch_gen, mine.lease`

// SubmitJob implements store.Submitter.
func (s *Submitter) SubmitJob(ctx context.Context, j store.NewJob, key store.Idempotency, window int, rivals ...string) (job.ID, *store.Dispatch, error) {
	cols, err := columnsOf([]store.NewJob{j})
	if err != nil {
		return "", nil, pg.Translate("submit job", err)
	}
	var made job.ID
	classes := append([]string{j.Pool}, rivals...)
	var gen job.Generation
	var lease job.Lease
	var ahead int32
	var limited bool
	err = s.db.Do(ctx, "submit job", func(ctx context.Context) error {
		tenant, err := s.db.TenantID(ctx, j.Tenant)
		if err != nil {
			return err
		}
		defer func() {
			if gen == 0 { // it waits, unless it was not accepted
				s.db.News.Queued(store.Queue{Tenant: tenant, Class: j.Pool})
			}
		}()
		statement := submitCounted
		if _, unlimited := s.unlimited.Load(tenant); unlimited && j.Worker != "" {
			statement = submitUncounted
		}
		for {
			made = j.ID
			err := s.db.Pool.QueryRow(ctx, statement, tenant, key.Key, key.Hash, pg.UUID(j.ID), window, j.Pool, cols.priority[0],
				cols.maxAttempts[0], cols.retryOn[0], cols.expires[0], j.TraceParent, cols.identity[0], cols.spec[0],
				cols.lane[0], cols.caps[0], cols.cacheKey[0],
				j.Worker, j.LeaseTTL.Milliseconds(), pg.SinceOf(j.Since), classes).Scan(&gen, &lease, &ahead, &limited)
			if pg.IsUniqueViolation(err) { // an unknown commit, sent again; if it was dispatched, Unclaimed publishes it
				gen, lease, err = s.issued(ctx, tenant, j, err)
				return err
			}
			if err == nil {
				s.noteLimit(tenant, limited)
			}
			if err == nil && j.Worker != "" && ahead != 0 && ahead != tenant {
				err = s.db.Pool.QueryRow(ctx, overtake, pg.UUID(j.ID), tenant, j.Worker, j.LeaseTTL.Milliseconds(), pg.SinceOf(j.Since), classes, ahead).Scan(&gen, &lease)
				if errors.Is(err, pgx.ErrNoRows) { // it waits for its turn
					return nil
				}
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			made, err = s.lookUpKey(ctx, tenant, key)
			if err != nil || made != "" {
				return err
			}
		}
	})
	switch {
	case err != nil:
		return "", nil, err
	case gen == 0:
		return made, nil, nil
	}
	d := &store.Dispatch{Ref: store.Ref{Job: j.ID, Generation: gen}, Lease: lease, Cacheable: len(j.CacheKey) > 0, Pool: j.Pool, TraceParent: j.TraceParent}
	if j.TraceParent != "" {
		d.Tenant = j.Tenant
	}
	return made, d, nil
}

// issued returns the lease of an existing job whose worker has not received it yet. If there is no such job, it returns
// cause, the error of the insert.
func (s *Submitter) issued(ctx context.Context, tenant int32, j store.NewJob, cause error) (gen job.Generation, lease job.Lease, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		SELECT CASE WHEN told THEN 0 ELSE dispatch_gen END, CASE WHEN told THEN 0 ELSE lease END
		FROM (SELECT *, state <> 'running' OR worker <> $3 AS told FROM live_jobs WHERE id = $1 AND tenant_id = $2) j`,
		pg.UUID(j.ID), tenant, j.Worker).Scan(&gen, &lease)
	if errors.Is(err, pgx.ErrNoRows) {
		err = cause
	}
	return gen, lease, err
}

// noteLimit notes whether a tenant has a limit of running jobs.
func (s *Submitter) noteLimit(tenant int32, limited bool) {
	if _, unlimited := s.unlimited.Load(tenant); unlimited != limited {
		return // as it was
	}
	if limited {
		s.unlimited.Delete(tenant)
	} else {
		s.unlimited.Store(tenant, struct{}{})
	}
}
