package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// assignments accepts jobs that dispatchers assign, until ctx ends. base is the context of the
// attempts.
func (w *Worker) assignments(ctx, base context.Context) {
	for ctx.Err() == nil {
		err := w.Control.OnAssign(ctx, w.cfg.ID, func(a control.Assignment) error { return w.assigned(base, a) })
		if err == nil {
			return // listening
		}
		slog.WarnContext(ctx, "not subscribed to assignments; retrying", "error", err)
		pause.For(ctx, time.Second)
	}
}

// assigned accepts a job whose lease a dispatcher has given to this worker, or returns the reason
// of its refusal. The message may have been delayed: the lease counts from before the heartbeat
// that the assignment names, and at least half of it must be left.
func (w *Worker) assigned(ctx context.Context, a control.Assignment) error {
	w.assigning.RLock()
	defer w.assigning.RUnlock()
	w.Awake.Stay() // a client waits for a single job
	refused := func(why string) error { return fmt.Errorf("%w: %s", job.ErrRefused, why) }
	if held := w.pressure.Why(); held != "" {
		return refused("the worker is held back: " + held)
	}
	until := w.started.Add(time.Duration(a.Beat)).Add(a.TTL.D())
	switch {
	case w.draining.Load():
		return refused("the worker is draining")
	case !w.breaker.Closed():
		return refused("the worker takes no jobs for now")
	case !a.StartedAt.Equal(w.started):
		return refused("it was for a previous worker of the same name")
	case time.Until(until) < a.TTL.D()/2:
		return refused("it arrived too late")
	case w.handed(a.Claimed.Lease, a.TTL.D()):
		return fmt.Errorf("%w: it was handed to this worker before", job.ErrConflict)
	case !w.capacity.Seize(int(w.underway.Load())):
		w.taken.Delete(a.Claimed.Lease) // not taken: a repeated assignment gets the same answer
		return refused("the worker is full")
	}
	c := a.Claimed
	l := w.leases.add(ctx, store.LeaseRef{Job: c.Job, Lease: c.Lease}, undelivered{c.Ref}, until)
	if l == nil {
		w.capacity.Free(1)
		return fmt.Errorf("%w: it runs here already", job.ErrConflict)
	}
	w.attempts.Go(func() { w.attempt(l, c, a.Secrets) })
	w.metrics.claimed(ctx, 1, 0)
	return nil
}

// handed reports whether this lease was assigned to the worker within the last ttl. A dispatcher
// that got no answer repeats the assignment, and the job may have ended by then.
func (w *Worker) handed(l job.Lease, ttl time.Duration) bool {
	_, before := w.taken.LoadOrStore(l, true)
	if !before {
		time.AfterFunc(ttl, func() { w.taken.Delete(l) })
	}
	return before
}

// undelivered replaces the message of a job that came without one.
type undelivered struct{ ref store.Ref }

var _ queue.Message = undelivered{}

func (u undelivered) Ref() store.Ref          { return u.ref }
func (u undelivered) TraceParent() string     { return "" }
func (u undelivered) Ack() error              { return nil }
func (u undelivered) Nak(time.Duration) error { return nil }
func (u undelivered) InProgress() error       { return nil }
