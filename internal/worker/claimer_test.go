package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// The cancel can overtake the answer to the claim.
func TestCancelBeforeTheClaimIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.after = func(_ context.Context, kind string) error {
			if kind == "claim" {
				f.onCancel(store.LeaseRef{Job: job.ID(""), Lease: 99}) // of another worker, ignored
				for id, j := range f.jobs {
					f.onCancel(store.LeaseRef{Job: id, Lease: j.lease})
				}
			}
			return nil
		}
		b := start(t, f)
		b.until("it listens for cancels", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.onCancel != nil })
		id := b.submit(t, script("sleep=1h"))
		if res := b.recorded(id); res.Outcome != job.OutcomeCanceled || b.rt.Started() != 0 {
			t.Errorf("outcome %s, %d attempts ran", res.Outcome, b.rt.Started())
		}
	})
}

func TestUnknownClaimIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		var n atomic.Int64
		f.after = func(_ context.Context, kind string) error {
			if kind == "claim" && n.Add(1) <= 3 {
				return job.ErrUnavailable
			}
			return nil
		}
		b := start(t, f)
		id := b.submit(t, script("sleep=1s"))
		if res := b.recorded(id); res.Outcome != job.Succeeded || b.rt.Started() != 1 {
			t.Errorf("outcome %s after %d runs", res.Outcome, b.rt.Started())
		}
	})
}

func TestUnansweredClaimGivesTheDeliveryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.before = func(_ context.Context, kind string) error {
			if kind == "claim" {
				return job.ErrUnavailable
			}
			return nil
		}
		b := start(t, f)
		id := b.submit(t, script("exit=0"))
		b.until("given back", func() bool { return b.row(id).delivered.naked() == 1 })
		if n := b.rt.Started(); n != 0 {
			t.Errorf("%d attempts ran without a lease", n)
		}
	})
}

func TestStaleDeliveryIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		id := b.submit(t, script("exit=0"))
		b.recorded(id)
		again := &message{f: b.fleet, ref: b.row(id).delivered.ref}
		b.ready <- again
		b.until("acknowledged", func() bool { return again.acked() == 1 })
		if n := b.rt.Started(); n != 1 {
			t.Errorf("ran %d times", n)
		}
	})
}

// A delivery that is repeated to the worker that runs the job gets the same lease again: the job
// must not run twice under it.
func TestDoubledDeliveryRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		id := b.submit(t, script("sleep=10s"))
		b.until("it runs", func() bool { return b.rt.Started() == 1 })
		again := &message{f: b.fleet, ref: b.row(id).delivered.ref}
		b.ready <- again
		b.recorded(id)
		if r := b.row(id); b.rt.Started() != 1 || r.claims != 2 || r.finishes != 1 || again.acked() != 0 {
			t.Errorf("ran %d times, %d claims, %d finishes, %d early acks", b.rt.Started(), r.claims, r.finishes, again.acked())
		}
	})
}

func TestHeldDeliveriesAreKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		id := b.submit(t, script("sleep=1m"))
		b.recorded(id)
		m := b.row(id).delivered
		if m.touches < 10 {
			t.Errorf("InProgress %d times", m.touches)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if first := b.beats[0]; first.Worker.ID != "w1" || first.Worker.Slots != 16 || first.Worker.Draining {
			t.Errorf("first heartbeat = %+v", first)
		}
	})
}

// Specs may be large and a dispatcher slow: each try of a claim is allowed more time.
func TestSlowClaimIsAnsweredInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		claims := 0
		f.after = func(ctx context.Context, kind string) error {
			if kind != "claim" {
				return nil
			}
			claims++
			select {
			case <-time.After(requestTimeout + time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		b := start(t, f)
		if res := b.recorded(b.submit(t, script(""))); res.Outcome != job.Succeeded || claims != 2 {
			t.Errorf("outcome %s after %d claims", res.Outcome, claims)
		}
	})
}
