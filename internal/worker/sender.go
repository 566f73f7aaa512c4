package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// finishing is a result on its way to the record.
type finishing struct {
	lease  *lease
	tenant string
	stored bool // artifacts exist under the lease
	finish store.Finish
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

// finish records results: it says the same until there is an answer, or until
// the leases are over. It acknowledges after the answer only, which is sent
// after the commit.
func (w *Worker) finish(ctx context.Context, batch []finishing) {
	said := false
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		if batch = w.stillOurs(ctx, batch, said); len(batch) == 0 {
			return
		}
		said = true
		req := queue.FinishRequest{Worker: w.cfg.ID, Finishes: make([]store.Finish, len(batch))}
		for i, f := range batch {
			req.Finishes[i] = f.finish
		}
		reply, err := ask(ctx, w.Control.Finish, req)
		if err == nil && len(reply.Statuses) == len(batch) {
			w.settle(ctx, batch, reply.Statuses)
			return
		}
		if errors.Is(err, job.ErrInvalid) || errors.Is(err, job.ErrTooLarge) {
			w.finishApart(ctx, batch, err)
			return
		}
		slog.WarnContext(ctx, "results not confirmed, saying the same again", "error", err, "results", len(batch))
		pause(ctx, wait)
	}
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
	slog.ErrorContext(ctx, "result refused", "job", f.lease.Job, "lease", f.lease.Lease, "error", err)
	w.release(ctx, []releasing{{
		lease: f.lease, tenant: f.tenant, stored: f.stored,
		release: store.Release{LeaseRef: f.lease.LeaseRef, Reason: job.ReasonInfra, Message: clip("result refused: " + err.Error())},
	}})
}

// stillOurs drops what can no longer be recorded. If it was said before, an
// answer may have been lost, so artifacts stay: either they belong to the record,
// or they are swept as orphans. If it was not (the worker slept through its
// lease), they go, and the lease is held until they are gone: see abandon.
func (w *Worker) stillOurs(ctx context.Context, batch []finishing, said bool) []finishing {
	ours := batch[:0:len(batch)]
	for _, f := range batch {
		if w.leases.over(f.lease) || ctx.Err() != nil {
			slog.WarnContext(ctx, "result not confirmed before its lease was over", "job", f.lease.Job, "lease", f.lease.Lease)
			if f.stored && !said {
				w.background.Go(func() {
					w.discard(ctx, f.tenant, f.lease)
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
			slog.InfoContext(ctx, "result came too late", "job", f.lease.Job, "lease", f.lease.Lease)
		}
		if f.stored {
			w.background.Go(func() { w.discard(ctx, f.tenant, f.lease) })
		}
	}
}

// release hands attempts back, with the same patience.
func (w *Worker) release(ctx context.Context, batch []releasing) {
	req := queue.ReleaseRequest{Worker: w.cfg.ID, Releases: make([]store.Release, len(batch))}
	for i, r := range batch {
		req.Releases[i] = r.release
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		_, err := ask(ctx, w.Control.Release, req)
		if err == nil {
			break
		}
		if ctx.Err() != nil || w.allOver(batch) {
			slog.WarnContext(ctx, "attempts not handed back, their leases are over", "error", err, "attempts", len(batch))
			for _, r := range batch {
				w.leases.remove(r.lease)
			}
			return
		}
		pause(ctx, wait)
	}
	for _, r := range batch {
		_ = r.lease.msg.Ack() // the job comes again under a new generation
		w.leases.remove(r.lease)
		if r.stored {
			w.background.Go(func() { w.discard(ctx, r.tenant, r.lease) })
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
