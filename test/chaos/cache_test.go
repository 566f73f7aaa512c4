package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// Cached results keep the guarantees while dispatchers are killed: a batch that ran before is
// recorded again, each job once, and none of them runs.
func TestCachedBatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{dispatchers: 2, workers: 2})
	const n = 1500
	submit := func(from int) job.ID {
		t.Helper()
		b, err := f.api.SubmitSpecs(t.Context(), client.BatchOptions{}, func(yield func(job.Spec) bool) {
			for i := from; i < from+n; i++ {
				s := scripted(fmt.Sprintf("output=%d exit=%d", i, i%2))
				s.Cache, s.Name = true, fmt.Sprint(i)
				s.Policy = []byte(`{"enforce":"report"}`)
				if !yield(s) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return b.ID
	}
	done := func(id job.ID) *job.Batch {
		t.Helper()
		b, err := f.api.Batch(t.Context(), id, 2*time.Minute)
		if err != nil || !b.Done() {
			t.Fatalf("%+v, %v", b, err)
		}
		return b
	}
	first := done(submit(0))
	leases := f.count("SELECT count(*) FROM jobs WHERE lease > 0")
	if first.Outcomes[job.Succeeded] != n/2 || first.Outcomes[job.Failed] != n/2 || leases != n {
		t.Fatalf("%+v, %d were run", first, leases)
	}
	eventually(t, "every worker has said what its image is", func() bool {
		return f.count(`SELECT count(*) FROM workers WHERE host LIKE '%"image_digests":{"python"%'`) == 2
	})
	time.Sleep(2 * time.Second) // a dispatcher that looked earlier has to look again
	begun := time.Now()
	again := submit(0)
	f.dispatchers[1].kill()
	second := done(again)
	t.Logf("%d jobs answered from the cache in %v", n, time.Since(begun))
	f.dispatchers[1].start(t)
	if second.Outcomes[job.Succeeded] != n/2 || second.Outcomes[job.Failed] != n/2 {
		t.Errorf("%+v", second)
	}
	if ran := f.count("SELECT count(*) FROM jobs WHERE batch_id = $1 AND lease > 0", string(again)); ran != 0 {
		t.Errorf("%d of them ran", ran)
	}
	wrong := f.count(`SELECT count(*) FROM results a JOIN results o ON a.body LIKE '"cached":true,"cached_from":"' || o.id || '",%'
		WHERE a.batch_id = $1 AND o.batch_id = $2 AND a.outcome = o.outcome AND a.body LIKE '%' || o.body`, string(again), string(first.ID))
	if wrong != n {
		t.Errorf("%d records are copies of their origins, want %d", wrong, n)
	}
	other := done(submit(n / 2)) // half of it is new
	if cached := f.count(`SELECT count(*) FROM results WHERE batch_id = $1 AND body LIKE '"cached":true%'`, string(other.ID)); cached != n/2 {
		t.Errorf("%d of %d were answered, want half", cached, n)
	}
	f.check()
}
