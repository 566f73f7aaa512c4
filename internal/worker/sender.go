package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// reportFor is how long the worker retries to send a result or a hand-back while answered
	// heartbeats renew its lease. It is longer than any outage from which a fleet recovers by
	// itself.
	reportFor = 5 * time.Minute
	// reportDraining replaces reportFor while the worker drains, for a result and for a hand-back.
	// Soon after its grace period, the worker is killed.
	reportDraining = 20 * time.Second
	// reportRate is the assumed rate at which a result reaches the record, in bytes a second:
	// through a busy server, a busy dispatcher and a commit.
	reportRate = 1 << 20
	// mostPatience is the longest wait for one answer. Dispatchers stop working on it then.
	mostPatience = 2 * time.Minute
	// morePatience is the factor by which the wait for an answer may grow.
	morePatience = 4
)

// patienceFor returns the first wait for the answer to a message of that size.
func patienceFor(bytes int) time.Duration {
	return min(requestTimeout+time.Duration(bytes/reportRate)*time.Second, mostPatience)
}

// finishing is a result that is being sent.
type finishing struct {
	lease  *lease
	tenant string
	stored bool // artifacts exist under the lease
	finish store.Finish
	since  time.Time // time at which the result was ready
	unsure bool      // sent without an answer: it may be recorded
}

// bytes returns the approximate size of f in a message.
func (f finishing) bytes() int { return len(f.finish.Result) + 128 }

// releasing is an attempt that is being handed back.
type releasing struct {
	lease   *lease
	tenant  string
	stored  bool
	release store.Release
}

// say queues a result for sending. A result larger than a batch is sent alone, without delaying the
// others.
func (w *Worker) say(f finishing) {
	if f.bytes() > maxBatchBytes {
		w.giants.add(f)
		return
	}
	w.finishes.add(f)
}

// finish records results. It repeats the same request until it is answered, until the leases are
// over, or for reportFor. Dispatchers answer after the commit, and only then finish acknowledges
// the deliveries.
func (w *Worker) finish(ctx context.Context, batch []finishing) {
	size := 0
	for _, f := range batch {
		size += f.bytes()
	}
	patience := patienceFor(size)
	most := min(morePatience*patience, mostPatience)
	var err error
	for waits := retries(20 * time.Millisecond); ; {
		if batch = w.inTime(ctx, w.stillOurs(ctx, batch), err); len(batch) == 0 {
			return
		}
		req := control.FinishRequest{Worker: w.cfg.ID, Finishes: make([]store.Finish, len(batch))}
		for i, f := range batch {
			req.Finishes[i] = f.finish
		}
		var reply control.FinishReply
		asked := time.Now()
		reply, err = askFor(ctx, patience, w.Control.Finish, req)
		if err == nil && len(reply.Statuses) == len(batch) {
			w.settle(ctx, batch, reply.Statuses)
			return
		}
		if errors.Is(err, job.ErrInvalid) || errors.Is(err, job.ErrTooLarge) {
			w.finishApart(ctx, batch, err)
			return
		}
		for i := range batch {
			batch[i].unsure = true
		}
		slog.WarnContext(ctx, "results not acknowledged; resending", "error", err, "results", len(batch), "bytes", size)
		if time.Since(asked) >= patience { // the answer may just need longer
			patience = min(2*patience, most)
		}
		pause.For(ctx, waits.NextBackOff())
	}
}

// reportLimit returns how long the worker tries to report the end of an attempt.
func (w *Worker) reportLimit() time.Duration {
	if w.draining.Load() {
		return reportDraining
	}
	return reportFor
}

// inTime hands back results that were sent but not confirmed within the limit, and returns the
// others. Each heartbeat renews their leases, so nothing else would end them. Another worker may
// have a better connection to a dispatcher.
func (w *Worker) inTime(ctx context.Context, batch []finishing, err error) []finishing {
	limit := w.reportLimit()
	left := batch[:0:len(batch)]
	for _, f := range batch {
		if !f.unsure || time.Since(f.since) < limit {
			left = append(left, f)
			continue
		}
		// Artifacts stay: they belong to the record, or are swept as orphans.
		why := job.ClipMessage(fmt.Sprintf("result of %d bytes not confirmed within %v: %v", len(f.finish.Result), limit, err))
		slog.ErrorContext(ctx, "result not acknowledged in time; handing the job back", "job", f.lease.Job, "lease", f.lease.Lease, "why", why)
		back := releasing{lease: f.lease, tenant: f.tenant, release: store.Release{LeaseRef: f.lease.LeaseRef, Reason: job.ReasonInfra, Message: why}}
		w.background.Go(func() { w.release(ctx, []releasing{back}) })
	}
	return left
}

// finishApart splits a refused message by halves, so that one bad result does not delay the others.
func (w *Worker) finishApart(ctx context.Context, batch []finishing, err error) {
	if half := len(batch) / 2; half > 0 {
		w.finish(ctx, batch[:half])
		w.finish(ctx, batch[half:])
		return
	}
	f := batch[0]
	slog.ErrorContext(ctx, "result rejected", "job", f.lease.Job, "lease", f.lease.Lease, "error", err)
	w.release(ctx, []releasing{{
		lease: f.lease, tenant: f.tenant, stored: f.stored && !f.unsure,
		release: store.Release{LeaseRef: f.lease.LeaseRef, Reason: job.ReasonInfra, Message: job.ClipMessage("result refused: " + err.Error())},
	}})
}

// stillOurs drops results whose lease is over. If such a result was sent, its answer may have been
// lost. Its artifacts stay: they belong to the record, or are swept as orphans. If it was not sent
// (the worker was suspended past its lease), its artifacts are deleted, and the lease is held until
// then: see abandon.
func (w *Worker) stillOurs(ctx context.Context, batch []finishing) []finishing {
	ours := batch[:0:len(batch)]
	for _, f := range batch {
		if w.leases.over(f.lease) || ctx.Err() != nil {
			slog.WarnContext(ctx, "lease expired before its result was acknowledged", "job", f.lease.Job, "lease", f.lease.Lease)
			if f.stored && !f.unsure {
				w.background.Go(func() {
					w.transfer.Discard(ctx, f.lease.owner(f.tenant))
					w.leases.remove(f.lease)
				})
				continue
			}
			w.leases.remove(f.lease)
			continue
		}
		ours = append(ours, f)
	}
	return ours
}

// settle acts on the statuses of the results.
func (w *Worker) settle(ctx context.Context, batch []finishing, statuses []store.FinishStatus) {
	for i, f := range batch {
		_ = f.lease.msg.Ack() // if this is lost, the next claim is refused and acknowledges
		w.leases.remove(f.lease)
		if statuses[i] == store.Recorded {
			continue
		}
		if statuses[i] == store.Fenced {
			w.metrics.fencedLate(ctx)
			slog.InfoContext(ctx, "result rejected: lease lost", "job", f.lease.Job, "lease", f.lease.Lease)
		}
		if f.stored {
			w.background.Go(func() { w.transfer.Discard(ctx, f.lease.owner(f.tenant)) })
		}
	}
}

// release hands attempts back, with the same retries.
func (w *Worker) release(ctx context.Context, batch []releasing) {
	req := control.ReleaseRequest{Worker: w.cfg.ID, Releases: make([]store.Release, len(batch))}
	for i, r := range batch {
		req.Releases[i] = r.release
	}
	began := time.Now()
	for waits := retries(20 * time.Millisecond); ; {
		_, err := ask(ctx, w.Control.Release, req)
		if err == nil {
			break
		}
		if ctx.Err() != nil || w.allOver(batch) || time.Since(began) >= w.reportLimit() {
			slog.WarnContext(ctx, "attempts not handed back; their leases expire", "error", err, "attempts", len(batch))
			for _, r := range batch {
				w.leases.remove(r.lease)
			}
			return
		}
		pause.For(ctx, waits.NextBackOff())
	}
	for _, r := range batch {
		_ = r.lease.msg.Ack() // the job comes again under a new generation
		w.leases.remove(r.lease)
		if r.stored {
			w.background.Go(func() { w.transfer.Discard(ctx, r.lease.owner(r.tenant)) })
		}
	}
}

func (w *Worker) allOver(batch []releasing) bool {
	for _, r := range batch {
		if !w.leases.over(r.lease) {
			return false
		}
	}
	return true
}
