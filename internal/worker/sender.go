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
	// reportFor is how long it is tried to have a result recorded, or an attempt handed
	// back, while heartbeats are answered, which keep its lease: longer than any outage
	// that a fleet gets over by itself.
	reportFor = 5 * time.Minute
	// reportDraining is the same while the worker drains, for each of both: it is ended
	// by force not long after its grace period.
	reportDraining = 20 * time.Second
	// reportRate is how fast a result is reckoned with to reach the record, in bytes a
	// second: through a busy server, a busy dispatcher and a commit.
	reportRate = 1 << 20
	// mostPatience is the longest wait for one answer; dispatchers work no longer on it.
	mostPatience = 2 * time.Minute
	// morePatience is how much longer than at first an answer is waited for at last.
	morePatience = 4
)

// patienceFor is how long the answer to a message of so many bytes is waited for at first.
func patienceFor(bytes int) time.Duration {
	return min(requestTimeout+time.Duration(bytes/reportRate)*time.Second, mostPatience)
}

// finishing is a result on its way to the record.
type finishing struct {
	lease  *lease
	tenant string
	stored bool // artifacts exist under the lease
	finish store.Finish
	since  time.Time // when it was there to be said
	unsure bool      // it was said and not answered: it may be the record
}

// bytes is about what f takes in a message.
func (f finishing) bytes() int { return len(f.finish.Result) + 128 }

// releasing is an attempt on its way back.
type releasing struct {
	lease   *lease
	tenant  string
	stored  bool
	release store.Release
}

// say sends a result on its way: one that is larger than what is gathered goes alone,
// and the others do not wait for it.
func (w *Worker) say(f finishing) {
	if f.bytes() > maxBatchBytes {
		w.giants.add(f)
		return
	}
	w.finishes.add(f)
}

// finish records results: it says the same until there is an answer, until the
// leases are over, or for as long as reportFor. It acknowledges after the answer only,
// which is sent after the commit.
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
		if time.Since(asked) >= patience { // it may only take longer
			patience = min(2*patience, most)
		}
		pause.For(ctx, waits.NextBackOff())
	}
}

// reportLimit is how long the end of an attempt is tried to be reported.
func (w *Worker) reportLimit() time.Duration {
	if w.draining.Load() {
		return reportDraining
	}
	return reportFor
}

// inTime hands back what was said and is not confirmed in good time, and returns the
// rest. Its lease is prolonged with every heartbeat, so nothing else would ever end it;
// and another worker may have a better way to a dispatcher.
func (w *Worker) inTime(ctx context.Context, batch []finishing, err error) []finishing {
	limit := w.reportLimit()
	left := batch[:0:len(batch)]
	for _, f := range batch {
		if !f.unsure || time.Since(f.since) < limit {
			left = append(left, f)
			continue
		}
		// Artifacts stay: either they belong to the record, or they are swept as orphans.
		why := clip(fmt.Sprintf("result of %d bytes not confirmed within %v: %v", len(f.finish.Result), limit, err))
		slog.ErrorContext(ctx, "result not acknowledged in time; handing the job back", "job", f.lease.Job, "lease", f.lease.Lease, "why", why)
		back := releasing{lease: f.lease, tenant: f.tenant, release: store.Release{LeaseRef: f.lease.LeaseRef, Reason: job.ReasonInfra, Message: why}}
		w.background.Go(func() { w.release(ctx, []releasing{back}) })
	}
	return left
}

// finishApart deals with a message that is refused as a whole, by halves, so
// that one bad result holds nobody else up.
func (w *Worker) finishApart(ctx context.Context, batch []finishing, err error) {
	if half := len(batch) / 2; half > 0 {
		w.finish(ctx, batch[:half])
		w.finish(ctx, batch[half:])
		return
	}
	f := batch[0]
	if f.toOlder() { // a dispatcher of an older release, back since the last heartbeat
		w.finish(ctx, []finishing{f})
		return
	}
	slog.ErrorContext(ctx, "result rejected", "job", f.lease.Job, "lease", f.lease.Lease, "error", err)
	w.release(ctx, []releasing{{
		lease: f.lease, tenant: f.tenant, stored: f.stored && !f.unsure,
		release: store.Release{LeaseRef: f.lease.LeaseRef, Reason: job.ReasonInfra, Message: clip("result refused: " + err.Error())},
	}})
}

// stillOurs drops what can no longer be recorded. If it was said before, an
// answer may have been lost, so artifacts stay: either they belong to the record,
// or they are swept as orphans. If it was not (the worker slept through its
// lease), they go, and the lease is held until they are gone: see abandon.
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

// settle acts on what became of the results.
func (w *Worker) settle(ctx context.Context, batch []finishing, statuses []store.FinishStatus) {
	for i, f := range batch {
		_ = f.lease.msg.Ack() // if it is lost, the next claim is refused and acknowledges
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

// release hands attempts back, with the same patience.
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
