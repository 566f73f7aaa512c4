package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/session"
	"github.com/assay-run/assay/pkg/store"
)

const (
	sweepQueueEvery = 30 * time.Second // between two sweeps of the queue
	republishLimit  = 1000             // of one round
)

// reaper repairs the effects of lost workers, dispatchers and messages. Only a loss of Postgres loses jobs.
type reaper struct {
	store     reaperStore
	queue     reaperQueue
	leader    *leader
	scheduler *scheduler
	sessions  *session.Ends
	metrics   *metrics
	reaped    func(now time.Time, took time.Duration, steps map[string]time.Duration, err error)
	log       *slog.Logger

	every          time.Duration
	republishAfter time.Duration
}

// reaperStore is the part of the store that a reaper uses.
type reaperStore interface {
	ReapLeases(ctx context.Context) (store.ReapStats, error)
	CountAsides(ctx context.Context) (int64, error)
	Reap(ctx context.Context) (store.ReapStats, error)
	Unclaimed(ctx context.Context, age time.Duration, limit int) ([]store.Dispatch, error)
}

// reaperQueue is the part of the queue that a reaper uses.
type reaperQueue interface {
	Sweep(ctx context.Context) error
	SendCancel(worker string, l store.LeaseRef) error
}

// run repairs until ctx ends. Leases have their own loop, so that slow repairs do not delay the jobs of lost workers.
func (r *reaper) run(ctx context.Context) {
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() {
		r.loop(ctx, func() {
			if r.leader.is() {
				r.reap(ctx, "leases", r.store.ReapLeases)
			}
		})
	})
	swept := time.Now()
	r.loop(ctx, func() {
		due := time.Since(swept) > sweepQueueEvery
		if r.leader.is() {
			r.sessions.Reap(ctx)
			r.reap(ctx, "round", r.store.Reap)
			if due {
				r.sweepQueue(ctx)
			}
		}
		if due {
			r.countAsides(ctx)
			swept = time.Now()
		}
		r.republish(ctx)
	})
}

// loop calls step at every tick until ctx ends.
func (r *reaper) loop(ctx context.Context, step func()) {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			step()
		case <-ctx.Done():
			return
		}
	}
}

// countAsides reports how many rejected results wait for an operator.
func (r *reaper) countAsides(ctx context.Context) {
	n, err := r.store.CountAsides(ctx)
	if err != nil {
		r.log.DebugContext(ctx, "rejected results not counted", "error", err)
		return
	}
	r.metrics.asides.Record(ctx, n)
}

// sweepQueue removes acknowledged messages that a failure of the queue left behind. If it fails, the next sweep removes
// them.
func (r *reaper) sweepQueue(ctx context.Context) {
	if err := r.queue.Sweep(ctx); err != nil {
		r.log.DebugContext(ctx, "queue sweep failed", "error", err)
	}
}

// reap runs one round of reap, logs its repairs, and records its duration as the step name.
func (r *reaper) reap(ctx context.Context, name string, reap func(context.Context) (store.ReapStats, error)) {
	start := time.Now()
	stats, err := reap(ctx)
	took := time.Since(start)
	r.reaped(start.Add(took), took, stats.Steps, err)
	r.metrics.reapRound(ctx, name, took, stats.Steps)
	r.stop(ctx, stats.Stopping) // of the steps that succeeded
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "reaping failed in part", "error", err)
	}
	if stats.LeasesExpired+stats.JobsTakenBack+stats.JobsExpired+stats.JobsCanceled+stats.BatchesDropped+stats.BatchesAbandoned > 0 {
		r.log.InfoContext(ctx, "reaped", "leases", stats.LeasesExpired, "lost", stats.JobsLost,
			"taken_back", stats.JobsTakenBack, "expired", stats.JobsExpired, "canceled", stats.JobsCanceled,
			"batches", stats.BatchesDropped, "abandoned", stats.BatchesAbandoned)
		r.metrics.reaped(ctx, stats)
		r.scheduler.wake()
	}
}

// stop sends cancels to the workers. If a message is lost, the next heartbeat delivers the cancel.
func (r *reaper) stop(ctx context.Context, cs []store.Canceling) {
	for _, c := range cs {
		if err := r.queue.SendCancel(c.Worker, c.LeaseRef); err != nil {
			r.log.WarnContext(ctx, "cancel not sent; the worker's heartbeat will deliver it", "job", c.Job, "worker", c.Worker, "error", err)
		}
	}
}

// republish publishes unclaimed jobs again: their messages may never have been sent, or JetStream may have lost them.
// Messages that are still queued count as published, so this is safe at any time.
func (r *reaper) republish(ctx context.Context) {
	ds, err := r.store.Unclaimed(ctx, r.republishAfter, republishLimit)
	if err == nil {
		for _, d := range ds { // their workers may not know the class yet
			r.scheduler.classes.note(ctx, d.Pool)
		}
		err = r.scheduler.publish(ctx, ds)
	}
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "republish failed", "jobs", len(ds), "error", err)
	}
}
