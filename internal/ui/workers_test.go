package ui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/store"
)

// TestWorkersPageCountsLongJobs: the page shows the running jobs, free slots and used cores of a worker and its pool,
// also if jobs have given up their slots.
func TestWorkersPageCountsLongJobs(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	w := store.Worker{ID: "w", Pool: "default", Slots: 16, InUse: 1, StartedAt: time.Now(), Load: store.WorkerLoad{Running: 20, Cores: 4, CoresUsed: 0.5}}
	if err := f.store.PutWorkers(t.Context(), []store.Worker{w}); err != nil {
		t.Fatal(err)
	}
	_, page := f.as(opKey).get("/ui/workers")
	words := strings.Join(strings.Fields(page), " ")
	for _, want := range []string{`20</meter> 20</td><td class="num">15</td><td>0.5 of 4</td>`, "20</meter> 20 running · 15 free"} {
		if !strings.Contains(words, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}
