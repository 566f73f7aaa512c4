package worker

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Specs that do not fit into the answer to a claim are requested until all have arrived.
func TestSpecsThatDoNotFitAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.room = 1000
		var ids []job.ID
		for range 30 {
			ids = append(ids, f.submit(t, script("output="+strings.Repeat("y", 600))))
		}
		b := start(t, f)
		for _, id := range ids {
			if res := b.recorded(id); res.Outcome != job.Succeeded {
				t.Errorf("result = %+v", res)
			}
			if r := b.row(id); r.recorded != 1 || len(r.releases) != 0 {
				t.Errorf("recorded %d times, released %d times", r.recorded, len(r.releases))
			}
		}
	})
}

// A job with a lease whose spec never arrives goes back to the dispatchers, and not to the queue:
// the claims of its next receivers would be refused.
func TestUnreadJobsAreHandedBack(t *testing.T) {
	for name, fails := range map[string]bool{"no answer": true, "no spec": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				var claims atomic.Int64
				ids := []job.ID{f.submit(t, script("output=first")), f.submit(t, script("output=second"))}
				f.room = 1
				f.before = func(_ context.Context, kind string) error {
					if kind != "claim" || claims.Add(1) == 1 {
						return nil
					}
					if fails {
						return job.ErrUnavailable
					}
					f.mu.Lock()
					f.jobs[ids[1]].spec = nil
					f.mu.Unlock()
					return nil
				}
				b := start(t, f)
				b.recorded(ids[0])
				rel := b.released(ids[1])
				if rel.Reason != job.ReasonPreempted || rel.Message == "" {
					t.Errorf("released with %+v", rel)
				}
				b.until("its delivery is over", func() bool { m := b.row(ids[1]).delivered; return m.acked() == 1 && m.naked() == 0 })
				time.Sleep(time.Second) // drained checks that its slot is free
			})
		})
	}
}

// A job that gets no core here for too long is handed back. This is not a failure.
func TestStarvedJobsAreHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		b := start(t, f)
		if rel := b.released(b.submit(t, script("starved=always"))); rel.Reason != job.ReasonPreempted || rel.Message == "" {
			t.Errorf("released with %+v", rel)
		}
	})
}
