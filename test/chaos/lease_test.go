package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// A waiting client renews its lease. When it vanishes, its work ends, even if a dispatcher is
// killed at that moment. Work without a lease goes on.
func TestClientVanishes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{dispatchers: 2, slots: 4})
	specs := func(yield func(job.Spec) bool) {
		for range 50 {
			if !yield(scripted("sleep=5m")) {
				return
			}
		}
	}
	b, err := f.api.SubmitSpecs(t.Context(), client.BatchOptions{Lease: job.MinLease.D()}, specs)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fleet is busy", func() bool { return f.in(job.Running) == 4 })
	waiting, vanish := context.WithCancel(t.Context())
	defer vanish()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for range f.apis[1].Progress(waiting, b.ID) {
		}
	}()
	eventually(t, "the lease would be over twice", func() bool {
		now, err := f.api.Batch(t.Context(), b.ID, 0)
		return err == nil && now.LeaseUntil.Sub(b.LeaseUntil) > 2*job.MinLease.D()
	})
	if n := f.in(job.Running); n != 4 {
		t.Errorf("%d run while the client waits", n)
	}
	vanish()
	<-gone
	f.dispatchers[1].kill()
	left := time.Now()
	other := f.submit("")
	eventually(t, "its work is over", func() bool {
		return f.count("SELECT count(*) FROM jobs WHERE batch_id = $1 AND state = 'canceled'", string(b.ID)) == 50
	})
	t.Logf("the work of a client with a lease of %v is over %v after it vanished", job.MinLease.D(), time.Since(left))
	f.until(other, job.Finished)
	f.dispatchers[1].start(t)
	f.check()
	if got, err := f.api.Batch(t.Context(), b.ID, 0); err != nil || !got.Abandoned || got.Counts[job.Canceled] != 50 {
		t.Errorf("%+v, %v", got, err)
	}
}
