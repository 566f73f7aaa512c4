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

// batchColumns takes finished jobs from the counters and unfinished ones from the indexes on live rows, which hold no
// more than the windows and the fleet. So the size of the batch does not matter. A batch that has ended has no
// unfinished jobs.
var batchColumns = `b.id, b.name, b.labels, b.label_caps, t.name, b.retry_of, b.created_at, c.total, c.ended_at,
	c.ended_at IS NULL AND (b.paused_at IS NOT NULL OR t.paused_at IS NOT NULL),
	CASE WHEN c.ended_at IS NULL THEN (SELECT count(*) FROM live_jobs j
		WHERE j.state = 'dispatched' AND j.tenant_id = b.tenant_id AND j.batch_id = b.id) ELSE 0 END,
	CASE WHEN c.ended_at IS NULL THEN (SELECT count(*) FROM live_jobs j
		WHERE j.state = 'running' AND j.tenant_id = b.tenant_id AND j.batch_id = b.id) ELSE 0 END,
	c.recorded, ARRAY[` + format.PerOutcome(`c.%s`) + `], ` + deliveryColumns + `, ` + leaseColumns

const batchTables = ` FROM batches b` + batchParts

const batchParts = ` JOIN tenants t ON t.id = b.tenant_id JOIN batch_counts c ON c.batch_id = b.id
	LEFT JOIN callbacks k ON k.batch_id = b.id LEFT JOIN batch_leases l ON l.batch_id = b.id `

func scanBatch(row pgx.CollectableRow) (job.Batch, error) {
	var id, retryOf pgtype.UUID
	var labels *string
	var ended *time.Time
	var dispatched, running, recorded int64
	var outcomes []int64
	b := job.Batch{Outcomes: map[job.Outcome]int64{}}
	var d deliveryRow
	var l leaseRow
	err := row.Scan(append([]any{&id, &b.Name, &labels, &b.LabelCaps, &b.Tenant, &retryOf, &b.CreatedAt, &b.Total, &ended, &b.Paused,
		&dispatched, &running, &recorded, &outcomes}, append(d.targets(), l.targets()...)...)...)
	if err != nil {
		return b, err
	}
	b.Callback = d.delivery()
	b.ID, b.RetryOf, b.EndedAt = pg.JobID(id), pg.BatchID(retryOf), pg.OrZero(ended)
	for i, o := range job.Outcomes {
		if outcomes[i] > 0 {
			b.Outcomes[o] = outcomes[i]
		}
	}
	canceled := b.Outcomes[job.OutcomeCanceled]
	b.Counts = map[job.State]int64{
		job.Queued: b.Total - recorded - dispatched - running, job.Dispatched: dispatched, job.Running: running,
		job.Finished: recorded - canceled, job.Canceled: canceled,
	}
	l.into(&b)
	if labels != nil {
		err = json.Unmarshal([]byte(*labels), &b.Labels)
	}
	return b, err
}

// Batch implements store.Reader.
func (s *Reader) Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error) {
	found, err := s.selectBatches(ctx, tenant, `b.id = $2`, pg.UUID(id))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, s.db.TranslateNotFound(ctx, id, fmt.Errorf("postgres: %w", fmt.Errorf("%w: batch %s", job.ErrNotFound, id)))
	}
	return &found[0], nil
}

// batchDone looks at two rows by their keys. Tenant 0 stands for all of them.
const batchDone = `
SELECT c.ended_at IS NOT NULL FROM batches b JOIN batch_counts c ON c.batch_id = b.id
WHERE b.id = $2 AND b.sealed_at IS NOT NULL AND (b.tenant_id = $1 OR $1::integer = 0)`

// BatchDone implements store.Reader.
func (s *Reader) BatchDone(ctx context.Context, tenant string, id job.ID) (done bool, err error) {
	err = s.db.Do(ctx, "batch done", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err == nil {
			err = s.db.Pool.QueryRow(ctx, batchDone, t, pg.UUID(id)).Scan(&done)
		}
		if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, job.ErrNotFound) {
			err = fmt.Errorf("%w: batch %s", job.ErrNotFound, id)
		}
		return err
	})
	return done, s.db.TranslateNotFound(ctx, id, err)
}

const progress = `
SELECT b.id, t.name, c.recorded, c.ended_at IS NOT NULL
FROM unnest($1::uuid[]) AS i (id) JOIN batches b ON b.id = i.id JOIN batch_counts c ON c.batch_id = b.id JOIN tenants t ON t.id = b.tenant_id
WHERE coalesce(b.sealed_at, 'infinity') < 'infinity'`

// Progress implements store.Reader.
func (s *Reader) Progress(ctx context.Context, batches []job.ID) (out []store.Progress, err error) {
	err = s.db.Do(ctx, "progress of batches", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, progress, pg.UUIDs(batches))
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Progress, error) {
			var id pgtype.UUID
			var p store.Progress
			err := row.Scan(&id, &p.Tenant, &p.Recorded, &p.Done)
			p.Batch = pg.JobID(id)
			return p, err
		})
		return err
	})
	return out, err
}

// BatchesByID implements store.Reader.
func (s *Reader) BatchesByID(ctx context.Context, batches []job.ID) ([]job.Batch, error) {
	return s.selectBatches(ctx, "", `b.id = ANY($2::uuid[])`, pg.UUIDs(batches))
}

func (s *Reader) selectBatches(ctx context.Context, tenant, where string, args ...any) (found []job.Batch, err error) {
	err = s.db.Do(ctx, "batch", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		// Two texts rather than "$1 = 0 OR …": with the equality, a tenant's list is a
		// walk along its own index; without, that index must not fit.
		whose := `b.sealed_at IS NOT NULL AND b.tenant_id = $1`
		if t == 0 {
			whose = `coalesce(b.sealed_at, 'infinity') < 'infinity' AND $1::integer = 0`
		}
		rows, err := s.db.Pool.Query(ctx, `SELECT `+batchColumns+batchTables+`WHERE `+whose+` AND `+where,
			append([]any{t}, args...)...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, scanBatch)
		return err
	})
	return found, err
}

// leaseRow scans the lease that a batch may have.
type leaseRow struct {
	ttl    *int64
	until  *time.Time
	lapsed *bool
}

// The lease of an open batch ends at infinity and is not read.
const leaseColumns = `l.ttl, CASE WHEN l.over_at IS NULL AND l.until < 'infinity' THEN l.until END, l.lapsed`

func (r *leaseRow) targets() []any { return []any{&r.ttl, &r.until, &r.lapsed} }

func (r *leaseRow) into(b *job.Batch) {
	if r.ttl == nil {
		return
	}
	b.Lease, b.LeaseUntil, b.Abandoned = job.Duration(time.Duration(*r.ttl)*time.Millisecond), pg.OrZero(r.until), *r.lapsed
	if b.Done() {
		b.LeaseUntil = time.Time{}
	}
}

// deliveryRow scans the callback that a batch may have.
type deliveryRow struct {
	id                 pgtype.UUID
	url, secret, error *string
	tries              *int
	delivered, givenUp *time.Time
}

const deliveryColumns = `k.delivery, k.url, k.secret, k.last_error, k.tries, k.delivered_at, k.given_up_at`

func (r *deliveryRow) targets() []any {
	return []any{&r.id, &r.url, &r.secret, &r.error, &r.tries, &r.delivered, &r.givenUp}
}

func (r *deliveryRow) delivery() *job.Delivery {
	if !r.id.Valid {
		return nil
	}
	return &job.Delivery{
		URL: *r.url, SecretRef: *r.secret, ID: r.id.String(), Tries: *r.tries, LastError: *r.error,
		DeliveredAt: pg.OrZero(r.delivered), GivenUpAt: pg.OrZero(r.givenUp),
	}
}
