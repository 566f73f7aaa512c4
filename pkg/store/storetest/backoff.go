package storetest

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// testBackoff distinguishes reasons by the result of the next look at the queue.
func testBackoff(t *testing.T, open Open) {
	const never = time.Hour // so far away that the longest wait is the one used
	for _, c := range []struct {
		name    string
		reasons []job.Reason
		waits   bool
	}{
		{"drained", []job.Reason{job.ReasonDrained}, false},
		{"preempted", []job.Reason{job.ReasonPreempted}, false},
		{"lost once", []job.Reason{job.ReasonLost}, false},
		{"lost once after a drain", []job.Reason{job.ReasonDrained, job.ReasonLost}, false},
		{"lost twice", []job.Reason{job.ReasonLost, job.ReasonLost}, true},
		{"infra", []job.Reason{job.ReasonInfra}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, open, Options{RetryDelay: never})
			j := newJob("a")
			l := f.running(j)
			for i, r := range c.reasons {
				if i > 0 {
					l = leaseOf(f.run()[0])
				}
				f.must(f.Release(t.Context(), []store.Release{{Worker: worker, LeaseRef: l, Reason: r}}))
			}
			f.wantState(j.ID, job.Queued)
			other := newJob("b")
			f.submitJob(other) // behind it, without being delayed by it
			ds := f.schedule(10)
			if waits := len(ds) == 1 && ds[0].Job == other.ID; waits != c.waits || len(ds) == 0 {
				t.Errorf("waits %v, want %v; released %v", waits, c.waits, ds)
			}
			if _, err := f.Cancel(t.Context(), j.ID); err != nil || !f.state(j.ID).Terminal() {
				t.Errorf("cancel of a job that waits: %v", err)
			}
		})
	}
	t.Run("comes back by itself", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, Options{RetryDelay: 20 * time.Millisecond})
		l := f.running(newJob("a"))
		f.must(f.Release(t.Context(), []store.Release{{Worker: worker, LeaseRef: l, Reason: job.ReasonInfra}}))
		f.eventually("the end of the wait", func() bool { return len(f.schedule(1)) == 1 })
	})
	t.Run("the user's retry does not wait", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, Options{RetryDelay: never})
		j := newJob("a")
		j.MaxAttempts, j.RetryOn = 2, []job.Outcome{job.Failed}
		l := f.running(j)
		if got := f.finish(l, job.Failed); got != store.Retried {
			t.Fatalf("finish is %s", got)
		}
		if n := len(f.schedule(1)); n != 1 {
			t.Error("it waits")
		}
	})
	t.Run("a job that waits expires", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, open, Options{RetryDelay: never})
		j := newJob("a")
		j.ExpiresIn = 2 * time.Second // long enough to be claimed on a busy machine
		l := f.running(j)
		f.must(f.Release(t.Context(), []store.Release{{Worker: worker, LeaseRef: l, Reason: job.ReasonInfra}}))
		f.eventually("expiry", func() bool { return f.reap().JobsExpired == 1 })
	})
}
