package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// slow delays the answers for results of named jobs. Callers wait no longer than their timeouts.
type slow struct {
	*fleet
	takes func(control.FinishRequest) time.Duration
	tries atomic.Int64
}

func (s *slow) Finish(ctx context.Context, r control.FinishRequest) (control.FinishReply, error) {
	if d := s.takes(r); d > 0 {
		s.tries.Add(1)
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return control.FinishReply{}, fmt.Errorf("%w: %w", job.ErrUnavailable, ctx.Err())
		}
	}
	return s.fleet.Finish(ctx, r)
}

func holds(r control.FinishRequest, id job.ID) bool {
	for _, f := range r.Finishes {
		if f.Job == id {
			return true
		}
	}
	return false
}

// giant leaves a result that is larger than a batch of results.
var giant = "exception=Big:" + strings.Repeat("x", maxBatchBytes+1)

// An answer that takes longer than the first timeout is received in the end.
func TestSlowFinishIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		s := &slow{fleet: f, takes: func(control.FinishRequest) time.Duration { return 6 * time.Second }}
		b := start(t, f, func(_ *Config, p *Parts) { p.Control = s })
		id := b.submit(t, script("output=hello"))
		if res := b.recorded(id); res.Stdout.Text != "hello" {
			t.Errorf("result = %+v", res)
		}
		if n := s.tries.Load(); n != 2 {
			t.Errorf("said %d times, want 2: the second is waited for longer", n)
		}
	})
}

// The first timeout grows with the size of the message.
func TestPatienceGrowsWithSize(t *testing.T) {
	t.Parallel()
	if got := patienceFor(0); got != requestTimeout {
		t.Errorf("for nothing: %v", got)
	}
	if got := patienceFor(int(job.MaxResult)); got < 30*time.Second || got > mostPatience {
		t.Errorf("for the largest result: %v", got)
	}
	if got := patienceFor(1 << 40); got != mostPatience {
		t.Errorf("for what cannot be: %v", got)
	}
}

// A result that no dispatcher records ends as an infrastructure failure, although all heartbeats
// are answered. It delays no other result for longer than its retries.
func TestReportThatIsNeverConfirmedEnds(t *testing.T) {
	for name, text := range map[string]string{"small": "artifact=/workspace/x:y", "giant": "artifact=/workspace/x:y " + giant} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				bad := f.submit(t, script(text))
				s := &slow{fleet: f, takes: func(r control.FinishRequest) time.Duration {
					if holds(r, bad) {
						return time.Hour
					}
					return 0
				}}
				b := start(t, f, func(_ *Config, p *Parts) { p.Control = s })
				began := time.Now()
				for len(b.row(bad).releases) == 0 {
					if time.Since(began) > 2*reportFor {
						t.Fatalf("still held after %v", time.Since(began))
					}
					time.Sleep(time.Second)
				}
				rel := b.row(bad).releases[0]
				if rel.Reason != job.ReasonInfra || !strings.Contains(rel.Message, "not confirmed") || !strings.Contains(rel.Message, "bytes") {
					t.Errorf("released with %+v", rel)
				}
				if took := time.Since(began); took < reportFor {
					t.Errorf("given up after %v, want %v at least", took, reportFor)
				}
				if n := len(b.objectsLeft()); n != 1 {
					t.Errorf("%d artifacts: whether they belong to a record is unknown, they must stay", n)
				}
				next := b.submit(t, script("exit=0"))
				if b.recorded(next).Outcome != job.Succeeded {
					t.Error("the worker does not work any more")
				}
			})
		})
	}
}

// A draining worker ends, whatever happens to its results.
func TestDrainEndsWithoutAConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		s := &slow{fleet: f, takes: func(control.FinishRequest) time.Duration { return time.Hour }}
		b := start(t, f, func(_ *Config, p *Parts) { p.Control = s })
		id := b.submit(t, script("exit=0"))
		b.until("it is said", func() bool { return s.tries.Load() > 0 })
		began := time.Now()
		b.stop()
		<-b.ended
		if took := time.Since(began); took > time.Minute {
			t.Errorf("draining took %v", took)
		}
		if len(b.row(id).releases) != 1 {
			t.Error("the result was neither recorded nor was its job handed back")
		}
	})
}

// A lease that cannot even be released is not held for ever: it expires.
func TestReleaseThatIsNeverConfirmedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.before = func(_ context.Context, kind string) error {
			if kind == "release" {
				return job.ErrUnavailable
			}
			return nil
		}
		b := start(t, f)
		id := b.submit(t, script("error=broken"))
		b.until("it ran", func() bool { return b.rt.Started() == 1 })
		began := time.Now()
		for len(b.w.leases.all()) > 0 {
			if time.Since(began) > 2*reportFor {
				t.Fatalf("still held after %v", time.Since(began))
			}
			time.Sleep(time.Second)
		}
		if m := b.row(id).delivered; m.acked()+m.naked() != 0 {
			t.Errorf("acks %d, naks %d: nobody has confirmed anything", m.acked(), m.naked())
		}
	})
}

// A giant result delays no other result.
func TestGiantResultHasALaneOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		large := f.submit(t, script(giant))
		s := &slow{fleet: f, takes: func(r control.FinishRequest) time.Duration {
			if holds(r, large) {
				if len(r.Finishes) != 1 {
					t.Errorf("the giant comes with %d others", len(r.Finishes)-1)
				}
				return 3 * time.Minute
			}
			return 0
		}}
		b := start(t, f, func(_ *Config, p *Parts) { p.Control = s })
		b.until("it is said", func() bool { return s.tries.Load() > 0 })
		for range 50 {
			began := time.Now()
			id := b.submit(t, script("output=small"))
			b.recorded(id)
			if took := time.Since(began); took > time.Second {
				t.Fatalf("a small one beside it took %v", took)
			}
		}
	})
}
