package dispatcher

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/store"
)

const (
	maintainEvery   = time.Hour
	sweepQueueEvery = 30 * time.Second // between two looks
	republishLimit  = 1000             // of one round
)

// reaper repairs: it is what makes the loss of anything but Postgres harmless.
type reaper struct{ *Dispatcher }

func (r *reaper) run(ctx context.Context) {
	tick := time.NewTicker(r.cfg.ReapEvery)
	defer tick.Stop()
	var maintained time.Time
	swept := time.Now()
	for {
		if time.Since(maintained) > maintainEvery {
			if r.maintain(ctx) {
				maintained = time.Now()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if r.leader.is() {
			r.reap(ctx)
			if time.Since(swept) > sweepQueueEvery {
				r.sweepQueue(ctx)
				swept = time.Now()
			}
		}
		r.republish(ctx)
	}
}

func (r *reaper) maintain(ctx context.Context) bool {
	if err := r.store.Maintain(ctx); err != nil {
		if ctx.Err() == nil {
			r.log.WarnContext(ctx, "maintain failed", "error", err)
		}
		return false
	}
	if r.cfg.Retention > 0 {
		days, err := r.store.Forget(ctx, r.cfg.Retention)
		if days > 0 {
			r.log.InfoContext(ctx, "history dropped", "days", days, "older_than", r.cfg.Retention)
		}
		if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "history not dropped", "error", err)
		}
		return err == nil
	}
	return true
}

// sweepQueue has the queue forget what is done; while it is away, nothing is lost
// by waiting.
func (r *reaper) sweepQueue(ctx context.Context) {
	if err := r.queue.Sweep(ctx); err != nil {
		r.log.DebugContext(ctx, "queue not swept", "error", err)
	}
}

func (r *reaper) reap(ctx context.Context) {
	r.reapSessions(ctx)
	stats, err := r.store.Reap(ctx)
	r.stop(ctx, stats.Stopping) // those that were reached before an error, too
	if err != nil {
		if ctx.Err() == nil {
			r.log.WarnContext(ctx, "reap failed", "error", err)
		}
		return
	}
	if stats.LeasesExpired+stats.JobsTakenBack+stats.JobsExpired+stats.JobsCanceled+stats.BatchesDropped+stats.BatchesAbandoned > 0 {
		r.log.InfoContext(ctx, "reaped", "leases", stats.LeasesExpired, "lost", stats.JobsLost,
			"taken_back", stats.JobsTakenBack, "expired", stats.JobsExpired, "canceled", stats.JobsCanceled,
			"batches", stats.BatchesDropped, "abandoned", stats.BatchesAbandoned)
		r.metrics.reaped(ctx, stats)
		r.scheduler.wake()
	}
}

// stop tells the workers what nobody waits for any more. A message that gets lost
// costs a heartbeat.
func (r *reaper) stop(ctx context.Context, cs []store.Canceling) {
	for _, c := range cs {
		if err := r.queue.SendCancel(c.Worker, c.LeaseRef); err != nil {
			r.log.WarnContext(ctx, "cancel left to the heartbeat", "job", c.Job, "worker", c.Worker, "error", err)
		}
	}
}

// republish says again what no worker has claimed: the message may never have
// been sent, or JetStream may have lost it. A message that is still queued
// counts as published, so this is safe at any time.
func (r *reaper) republish(ctx context.Context) {
	ds, err := r.store.Unclaimed(ctx, r.cfg.RepublishAfter, republishLimit)
	if err == nil {
		for _, d := range ds { // whoever is to take it may not have heard of its class
			r.scheduler.classes.note(ctx, d.Pool)
		}
		err = r.scheduler.publish(ctx, ds)
	}
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "republish failed", "jobs", len(ds), "error", err)
	}
}
