package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	assignTime = 2 * time.Second // timeout for a worker to accept an assignment
	revokeTime = 5 * time.Second // timeout to revoke the lease; after it the lease expires
	mostUnsure = 64              // most concurrent revocations of leases that may not exist
)

// assigner assigns single jobs to workers with free slots, together with their lease. Such jobs skip the queue and
// the claim.
type assigner struct {
	fleet     *fleet.Fleet
	scheduler *scheduler
	recorder  *recorder
	queue     control.Bus
	secrets   Secrets
	metrics   *metrics
	log       *slog.Logger
	ttl       time.Duration

	underway sync.WaitGroup // calls that outlive their requests
	unsure   atomic.Int64   // running forget calls
}

// assign implements Dispatcher.Assign.
func (a *assigner) assign(j *store.NewJob) (submitted func(ctx context.Context, issued *store.Dispatch, err error)) {
	if len(j.CacheKey) > 0 { // the cache may have the result
		return nil
	}
	c, ok := a.fleet.Choose(j.Pool, a.ttl/3)
	if !ok {
		return nil
	}
	j.Worker, j.Since, j.LeaseTTL = c.Worker, store.IncarnationOf(c.StartedAt), a.ttl
	return func(ctx context.Context, issued *store.Dispatch, err error) {
		switch {
		case errors.Is(err, job.ErrUnavailable), errors.Is(err, context.Canceled): // the store may have issued a lease
			a.forget(ctx, c.Worker, j.ID)
		case err == nil && issued != nil && issued.Lease != 0:
			a.hand(ctx, *j, *issued, c)
		}
	}
}

// hand sends a job to the worker that the store issued its lease to, without blocking. If the worker does not accept
// it, hand revokes the lease and the job is queued.
func (a *assigner) hand(ctx context.Context, j store.NewJob, d store.Dispatch, c fleet.Choice) {
	start := time.Now()
	a.scheduler.took(j.Worker, 1)
	claimed := store.Claimed{Ref: d.Ref, Lease: d.Lease, Tenant: j.Tenant, Spec: j.Spec, TraceParent: j.TraceParent}
	ctx = context.WithoutCancel(ctx)
	a.underway.Go(func() {
		err := a.send(ctx, j.Worker, control.Assignment{Claimed: claimed, TTL: job.Duration(a.ttl), StartedAt: c.StartedAt, Beat: c.Beat})
		a.metrics.claimed(ctx, []store.Claimed{claimed})
		telemetry.Step(ctx, "assign", j.TraceParent, start, aboutClaimed(a.fleet, claimed, j.Worker))
		if err == nil || errors.Is(err, job.ErrConflict) { // the worker already runs it
			return
		}
		a.log.InfoContext(ctx, "assignment revoked", "job", d.Job, "worker", j.Worker, "why", err)
		a.revoke(ctx, j.Worker, store.LeaseRef{Job: d.Job, Lease: d.Lease})
		a.fleet.Took(j.Worker, math.MaxInt32) // no more jobs for it before its next heartbeat
	})
}

// send sends an assignment with its secrets. It repeats it for up to assignTime if no answer arrives.
func (a *assigner) send(ctx context.Context, worker string, as control.Assignment) error {
	secrets, err := a.secrets.Reveal(ctx, []store.Claimed{as.Claimed})
	if err != nil {
		return err
	}
	as.Secrets = secrets[as.Claimed.Job]
	return retryUnavailable(ctx, assignTime, func() error {
		ctx, cancel := context.WithTimeout(ctx, assignTime/2)
		defer cancel()
		return a.queue.Assign(ctx, worker, as)
	})
}

// forget revokes the lease that a submit with unknown outcome may have left, so that the job need not wait for its
// expiry. Beyond mostUnsure it does nothing: during a database outage many submits fail and few were committed.
func (a *assigner) forget(ctx context.Context, worker string, id job.ID) {
	if a.unsure.Add(1) > mostUnsure {
		a.unsure.Add(-1)
		return
	}
	a.scheduler.took(worker, 1) // perhaps too many; revoke corrects it
	ctx = context.WithoutCancel(ctx)
	a.underway.Go(func() {
		defer a.unsure.Add(-1)
		a.revoke(ctx, worker, store.LeaseRef{Job: id})
	})
}

// revoke revokes the lease of an assignment that no worker accepted. It logs a failure after revokeTime.
func (a *assigner) revoke(ctx context.Context, worker string, l store.LeaseRef) {
	err := retryUnavailable(ctx, revokeTime, func() error { return a.recorder.revoke(ctx, worker, l) })
	if err != nil {
		a.log.WarnContext(ctx, "assignment not revoked; its lease must expire", "job", l.Job, "error", err)
	}
}

// retryUnavailable calls f with backoff while it returns job.ErrUnavailable, for at most most. It returns the last error.
func retryUnavailable(ctx context.Context, most time.Duration, f func() error) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := f()
		if err != nil && !errors.Is(err, job.ErrUnavailable) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(most), backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: 20 * time.Millisecond, RandomizationFactor: 0.3, Multiplier: 2, MaxInterval: time.Second}))
	return err
}
