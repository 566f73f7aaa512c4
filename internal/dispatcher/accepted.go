package dispatcher

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// CountAccepted returns s with a counter of the jobs it accepts, assay_jobs_accepted.
func CountAccepted(s store.Store) (store.Store, error) {
	c, err := otel.Meter(scope).Int64Counter("assay_jobs_accepted", metric.WithDescription("Jobs accepted, including repeated requests."))
	if err != nil {
		return nil, err
	}
	return &counted{s, c}, nil
}

type counted struct {
	store.Store
	jobs metric.Int64Counter
}

func (c *counted) SubmitBatch(ctx context.Context, b store.NewBatch, jobs []store.NewJob) (job.ID, error) {
	id, err := c.Store.SubmitBatch(ctx, b, jobs)
	if err == nil {
		c.jobs.Add(ctx, int64(len(jobs)))
	}
	return id, err
}

func (c *counted) SealBatch(ctx context.Context, batch job.ID, total int64) error {
	err := c.Store.SealBatch(ctx, batch, total)
	if err == nil {
		c.jobs.Add(ctx, total)
	}
	return err
}

func (c *counted) SubmitJob(ctx context.Context, j store.NewJob, key store.Idempotency, window int, rivals ...string) (job.ID, *store.Dispatch, error) {
	id, d, err := c.Store.SubmitJob(ctx, j, key, window, rivals...)
	if err == nil {
		c.jobs.Add(ctx, 1)
	}
	return id, d, err
}
