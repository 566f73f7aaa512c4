package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// TestPressure checks that a worker whose host is short of memory takes no jobs and reports why,
// while the others do its work.
func TestPressure(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{workers: 1})
	f.addWorker("short", "ASSAY_MEMORY_RESERVE=1000Ti")
	f.ready()
	held := func() string {
		ws, err := f.api.Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range ws {
			if w.ID == "short" {
				return w.Held
			}
		}
		return ""
	}
	eventually(t, "it says so", func() bool { return strings.HasPrefix(held(), "short of memory") })
	b, err := f.submitBatch(f.api, 100, always(""))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = f.api.Batch(t.Context(), b.ID, time.Minute); err != nil || b.Outcomes[job.Succeeded] != 100 {
		t.Errorf("%+v, %v", b, err)
	}
	if n := f.count("SELECT count(*) FROM results WHERE worker = 'short'"); n != 0 {
		t.Errorf("it took %d jobs", n)
	}
}
