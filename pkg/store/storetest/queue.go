package storetest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/store"
)

// testQueue checks that waiting and running jobs are counted by class, tenant and priority. Large counts keep
// a correct sum.
func testQueue(t *testing.T, f *fixture) {
	got, err := f.Queue(f.Context())
	f.must(err)
	if len(got) != 0 {
		t.Errorf("an empty store has %v", got)
	}
	jobs := newJobs(5)
	jobs[3].Priority, jobs[4].Priority = 7, 7
	jobs[4].Pool = "other"
	f.submit(jobs...)
	single := newJob("single")
	single.Tenant = "beta"
	f.submitJob(single)
	for who, want := range map[string][]string{tenant: {pool, "other"}, "beta": {pool}, "nobody": nil} {
		classes, err := f.PoolsOf(f.Context(), who)
		f.must(err)
		slices.Sort(classes)
		if slices.Sort(want); !slices.Equal(classes, want) {
			t.Errorf("classes with queued jobs of %s: %q, want %q", who, classes, want)
		}
	}
	moved := f.schedule(2) // of one pool
	f.claim(moved[0].Ref)
	got, err = f.Queue(f.Context())
	f.must(err)
	total := store.QueueGroup{}
	for _, g := range got {
		if g.AtLeast {
			t.Errorf("%+v is said not to be counted", g)
		}
		if g.OldestSeconds < 0 || g.OldestSeconds > 600 || g.Queued == 0 && g.OldestSeconds != 0 {
			t.Errorf("the first job of %+v has waited for %g s", g, g.OldestSeconds)
		}
		total.Queued, total.Dispatched, total.Running = total.Queued+g.Queued, total.Dispatched+g.Dispatched, total.Running+g.Running
	}
	if want := (store.QueueGroup{Queued: 4, Dispatched: 1, Running: 1}); !cmp.Equal(total, want) {
		t.Errorf("in all %+v, want %+v: %+v", total, want, got)
	}
	if other := (store.QueueGroup{Pool: "other", Tenant: tenant, Priority: 7, Queued: 1}); !contains(got, other) {
		t.Errorf("no %+v in %+v", other, got)
	}

	many := newJobs(4500)
	f.submit(many...)
	got, err = f.Queue(f.Context())
	f.must(err)
	sum, uncounted := int64(0), false
	for _, g := range got {
		if g.Tenant == tenant {
			sum, uncounted = sum+g.Queued+g.Dispatched+g.Running, uncounted || g.AtLeast
		}
	}
	if !uncounted || sum != 4505 {
		t.Errorf("a long queue sums up to %d, want 4505; %v", sum, got)
	}
}

func contains(gs []store.QueueGroup, want store.QueueGroup) bool {
	for _, g := range gs {
		if want.OldestSeconds = g.OldestSeconds; cmp.Equal(g, want) {
			return true
		}
	}
	return false
}
