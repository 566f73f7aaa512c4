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

// The meter of a worker is full when all its slots are, and has a range when it has no slots.
func TestMetersOfFullWorkers(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	full := store.Worker{ID: "full", Pool: "default", Slots: 4, InUse: 4, StartedAt: time.Now(), Load: store.WorkerLoad{Running: 4}}
	none := store.Worker{ID: "none", Pool: "other", StartedAt: time.Now()}
	if err := f.store.PutWorkers(t.Context(), []store.Worker{full, none}); err != nil {
		t.Fatal(err)
	}
	_, page := f.as(opKey).get("/ui/workers")
	for _, want := range []string{`max="4" value="4" aria-label="Running jobs of default"`, `max="4" value="4" aria-label="Running jobs"`, `max="1" value="0" aria-label="Running jobs of other"`, `max="1" value="0" aria-label="Running jobs"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}

// A worker's card has its memory and disk in use. A worker that does not report them has neither.
func TestWorkersPageShowsUsage(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	put := func(load store.WorkerLoad) string {
		t.Helper()
		w := store.Worker{ID: "w", Pool: "default", Slots: 1, StartedAt: time.Unix(1800000000, 0), Load: load}
		if err := f.store.PutWorkers(t.Context(), []store.Worker{w}); err != nil {
			t.Fatal(err)
		}
		_, page := f.as(opKey).get("/ui/workers")
		return page
	}
	if page := put(store.WorkerLoad{Cores: 4}); strings.Contains(page, "in use</dt>") {
		t.Errorf("usage that was not reported:\n%s", page)
	}
	f = newFleet(t) // another one caches no page
	page := put(store.WorkerLoad{MemoryUsed: 3 << 30, Memory: 8 << 30, DiskUsed: 5 << 30, Disk: 20 << 30})
	for _, want := range []string{"<dt>Memory in use</dt><dd>3.00 GiB of 8.00 GiB</dd>", "<dt>Disk in use</dt><dd>5.00 GiB of 20.0 GiB</dd>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}
