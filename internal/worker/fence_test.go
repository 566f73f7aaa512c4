package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

func TestLostLeaseKillsTheSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newFleet())
		id := b.submit(t, script("artifact=/workspace/x:y sleep=1h"))
		b.until("it runs", func() bool { return len(b.objectsLeft()) == 1 })
		b.mu.Lock()
		b.jobs[id].lease = 77 // reaped and claimed elsewhere
		b.mu.Unlock()
		b.until("the sandbox is gone", func() bool { return b.rt.Live() == 0 })
		b.until("the delivery and the artifacts are gone", func() bool {
			return b.row(id).delivered.acked() == 1 && len(b.objectsLeft()) == 0
		})
		if r := b.row(id); r.finishes != 0 || len(r.releases) != 0 {
			t.Errorf("something was said under a lost lease: %+v", r)
		}
	})
}

// Without answers, the sandbox is dead before the lease can be over, whether heartbeats fail at
// once or hang.
func TestSelfFence(t *testing.T) {
	for name, heartbeat := range map[string]func(context.Context) error{
		"fails": func(context.Context) error { return job.ErrUnavailable },
		"hangs": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				var cut atomic.Bool
				f.before = func(ctx context.Context, kind string) error {
					if kind == "heartbeat" && cut.Load() {
						return heartbeat(ctx)
					}
					return nil
				}
				b := start(t, f)
				id := b.submit(t, script("artifact=/workspace/x:y sleep=1h"))
				time.Sleep(time.Minute) // heartbeats keep it alive
				if b.rt.Live() != 1 {
					t.Fatal("killed although heartbeats were answered")
				}
				b.mu.Lock()
				last := len(b.beats)
				b.mu.Unlock()
				cut.Store(true)
				began := time.Now()
				b.until("the sandbox is gone", func() bool { return b.rt.Live() == 0 })
				if took := time.Since(began); took > ttl-b.w.cfg.Margin+fenceTick+20*time.Millisecond || took < ttl-b.w.cfg.Margin-b.w.cfg.Heartbeat-fenceTick {
					t.Errorf("killed after %v, want just before %v", took, ttl-b.w.cfg.Margin)
				}
				b.until("its artifacts are gone", func() bool { return len(b.objectsLeft()) == 0 })
				if m := b.row(id).delivered; m.acked() != 0 {
					t.Error("acknowledged what nobody recorded")
				}
				if b.mu.Lock(); len(b.beats) != last {
					t.Error("the fleet was not cut off")
				}
				b.mu.Unlock()
			})
		})
	}
}

// Leases of any length are renewed in time, and fenced in time.
func TestIntervalsFollowTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.ttl = 4 * time.Second // less than the usual heartbeat interval
		b := start(t, f)
		id := b.submit(t, script("sleep=1m"))
		if res := b.recorded(id); res.Outcome != job.Succeeded {
			t.Errorf("outcome %s", res.Outcome)
		}
	})
}
