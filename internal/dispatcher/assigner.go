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

	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	assignTime = 2 * time.Second // for a worker to take a job that it is handed
	revokeTime = 5 * time.Second // to take its lease back; later that ends by itself
	mostUnsure = 64              // jobs at once that may have been submitted
)

// assigner hands jobs that come one by one to workers that have nothing to do, with
// a lease: they skip the way through the queue, and the claim.
type assigner struct {
	fleet     *fleet.Fleet
	scheduler *scheduler
	recorder  *recorder
	queue     control.Bus
	secrets   Secrets
	metrics   *metrics
	log       *slog.Logger
	ttl       time.Duration

	underway sync.WaitGroup // what no request waits for
	unsure   atomic.Int64   // jobs to be forgotten
}

// assign is Dispatcher.Assign.
func (a *assigner) assign(j *store.NewJob) (submitted func(ctx context.Context, issued *store.Dispatch, err error)) {
	if len(j.CacheKey) > 0 { // perhaps it need not run
		return nil
	}
	c, ok := a.fleet.Choose(j.Pool, a.ttl/3)
	if !ok {
		return nil
	}
	j.Worker, j.Since, j.LeaseTTL = c.Worker, store.IncarnationOf(c.StartedAt), a.ttl
	return func(ctx context.Context, issued *store.Dispatch, err error) {
		switch {
		case errors.Is(err, job.ErrUnavailable), errors.Is(err, context.Canceled): // who knows whether there is a lease
			a.forget(ctx, c.Worker, j.ID)
		case err == nil && issued != nil && issued.Lease != 0:
			a.hand(ctx, *j, *issued, c)
		}
	}
}

// hand gives a job to the worker that the store has issued its lease to. If the
// worker does not take it, the lease is taken back, and the job goes the usual way.
func (a *assigner) hand(ctx context.Context, j store.NewJob, d store.Dispatch, c fleet.Choice) {
	start := time.Now()
	a.scheduler.took(j.Worker, 1)
	claimed := store.Claimed{Ref: d.Ref, Lease: d.Lease, Tenant: j.Tenant, Spec: j.Spec, TraceParent: j.TraceParent}
	ctx = context.WithoutCancel(ctx)
	a.underway.Go(func() {
		err := a.send(ctx, j.Worker, control.Assignment{Claimed: claimed, TTL: job.Duration(a.ttl), StartedAt: c.StartedAt, Beat: c.Beat})
		a.metrics.claimed(ctx, []store.Claimed{claimed})
		telemetry.Step(ctx, "assign", j.TraceParent, start, aboutClaimed(a.fleet, claimed, j.Worker))
		if err == nil || errors.Is(err, job.ErrConflict) { // it runs there
			return
		}
		a.log.InfoContext(ctx, "assignment revoked", "job", d.Job, "worker", j.Worker, "why", err)
		a.revoke(ctx, j.Worker, store.LeaseRef{Job: d.Job, Lease: d.Lease})
		a.fleet.Took(j.Worker, math.MaxInt32) // nothing more for it before its next heartbeat
	})
}

// send says the same again if nobody knows whether it was heard.
func (a *assigner) send(ctx context.Context, worker string, as control.Assignment) error {
	secrets, err := a.secrets.Reveal(ctx, []store.Claimed{as.Claimed})
	if err != nil {
		return err
	}
	as.Secrets = secrets[as.Claimed.Job]
	return again(ctx, assignTime, func() error {
		ctx, cancel := context.WithTimeout(ctx, assignTime/2)
		defer cancel()
		return a.queue.Assign(ctx, worker, as)
	})
}

// forget sees to it that a job that was perhaps submitted under a lease, of which
// nobody heard, does not wait until that is over. Without a database there are many
// such jobs, and few were submitted.
func (a *assigner) forget(ctx context.Context, worker string, id job.ID) {
	if a.unsure.Add(1) > mostUnsure {
		a.unsure.Add(-1)
		return
	}
	a.scheduler.took(worker, 1) // perhaps, and perhaps not: revoke gives it back
	ctx = context.WithoutCancel(ctx)
	a.underway.Go(func() {
		defer a.unsure.Add(-1)
		a.revoke(ctx, worker, store.LeaseRef{Job: id})
	})
}

// revoke takes a lease back that no worker has.
func (a *assigner) revoke(ctx context.Context, worker string, l store.LeaseRef) {
	err := again(ctx, revokeTime, func() error { return a.recorder.revoke(ctx, worker, l) })
	if err != nil {
		a.log.WarnContext(ctx, "assignment not revoked; its lease must expire", "job", l.Job, "error", err)
	}
}

// again does f until it is done or refused, or for so long.
func again(ctx context.Context, most time.Duration, f func() error) error {
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
