package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func testSchedule(t *testing.T, open Open) {
	t.Run("fills the window in order", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		jobs := newJobs(5)
		batch := f.submit(jobs...)
		ds := f.schedule(3)
		if len(ds) != 3 {
			t.Fatalf("released %d, want 3", len(ds))
		}
		for i, d := range ds {
			want := store.Dispatch{Ref: store.Ref{Job: jobs[i].ID, Generation: 1}, Pool: pool,
				TraceParent: jobs[i].TraceParent, BatchID: batch, Tenant: tenant}
			if diff := cmp.Diff(want, d); diff != "" {
				t.Errorf("dispatch %d (-want +got):\n%s", i, diff)
			}
		}
		if ds := f.schedule(3); len(ds) != 0 {
			t.Errorf("a full window released %d more", len(ds))
		}
		f.claim(ds[0].Ref)
		if ds := f.schedule(3); len(ds) != 1 {
			t.Errorf("one place was free, released %d", len(ds))
		}
		if other, err := f.Schedule(t.Context(), []string{"gpu"}, 10); err != nil || len(other) != 0 {
			t.Errorf("another pool released %d, %v", len(other), err)
		}
	})
	t.Run("classes share a window and the turns in it", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		const special = pool + "?memory=1Gi"
		for tenant, class := range map[string]string{"a": special, "b": pool} {
			jobs := newJobs(20)
			for i := range jobs {
				jobs[i].Tenant, jobs[i].Pool = tenant, class
			}
			b := newBatch()
			b.Tenant = tenant
			_, err := f.SubmitBatch(t.Context(), b, jobs)
			f.must(err)
		}
		counts := map[string]int{}
		release := func(window int, classes ...string) (n int) {
			t.Helper()
			ds, err := f.Schedule(t.Context(), classes, window)
			f.must(err)
			for _, d := range ds {
				counts[d.Pool]++
			}
			return len(ds)
		}
		if n := release(10, pool, special); n != 10 || counts[pool] != 5 || counts[special] != 5 {
			t.Errorf("released %d: %v", n, counts)
		}
		if n := release(10, special, pool); n != 0 {
			t.Errorf("a full window released %d more", n)
		}
		if n := release(6, special); n != 1 || counts[special] != 6 {
			t.Errorf("released %d of one class: %v", n, counts)
		}
	})
	t.Run("tenants take turns by weight", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		f.must(f.PutTenant(t.Context(), store.Tenant{Name: "small", Weight: 1}))
		f.must(f.PutTenant(t.Context(), store.Tenant{Name: "big", Weight: 3}))
		of := map[job.ID]string{}
		for _, name := range []string{"small", "big"} {
			jobs := newJobs(40)
			for i := range jobs {
				jobs[i].Tenant = name
				of[jobs[i].ID] = name
			}
			b := newBatch()
			b.Tenant = name
			_, err := f.SubmitBatch(t.Context(), b, jobs)
			f.must(err)
		}
		counts := map[string]int{}
		for range 2 { // in two steps: held jobs count
			for _, d := range f.schedule(10) {
				counts[of[d.Job]]++
				f.claim(d.Ref)
			}
		}
		if want := map[string]int{"small": 5, "big": 15}; !cmp.Equal(counts, want) {
			t.Errorf("released %v, want %v", counts, want)
		}
	})
	t.Run("batches take turns and priority goes ahead", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		flood, late, urgent := newJobs(50), newJobs(2), newJobs(2)
		for i := range urgent {
			urgent[i].Priority = 10
		}
		f.submit(flood...)
		f.submit(late...)
		f.submit(urgent...)
		var got []job.ID
		for _, d := range f.schedule(6) {
			got = append(got, d.Job)
		}
		for _, j := range slices.Concat(late, urgent) {
			if !slices.Contains(got, j.ID) {
				t.Errorf("%s is not among the first six", j.ID)
			}
		}
		if got[0] != urgent[0].ID || got[1] != urgent[1].ID {
			t.Error("the urgent jobs are not first")
		}
	})
	t.Run("the oldest batches share a wide window", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		const batches, abreast, turn = 100, 64, 3
		var ids []job.ID
		for range batches {
			ids = append(ids, f.submit(newJobs(2*turn)...))
		}
		count := func(ds []store.Dispatch) map[job.ID]int {
			counts := map[job.ID]int{}
			for _, d := range ds {
				counts[d.BatchID]++
			}
			return counts
		}
		want := map[job.ID]int{}
		for _, id := range ids[:abreast] {
			want[id] = turn
		}
		ds := f.schedule(abreast * turn)
		if diff := cmp.Diff(want, count(ds)); diff != "" {
			t.Errorf("jobs of each batch (-want +got):\n%s", diff)
		}
		// The running jobs of the first count, too: the next ones go ahead of it.
		for _, d := range ds[:2*turn] {
			f.claim(d.Ref)
		}
		want = map[job.ID]int{ids[abreast]: turn, ids[abreast+1]: turn}
		if diff := cmp.Diff(want, count(f.schedule(abreast*turn))); diff != "" {
			t.Errorf("jobs of each batch in the place of those that run (-want +got):\n%s", diff)
		}
	})
	t.Run("a wide window is filled from batches of one job", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		for range 90 {
			f.submit(newJobs(1)...)
		}
		f.submit(newJobs(100)...)
		if n := len(f.schedule(130)); n != 130 {
			t.Errorf("released %d, want 130", n)
		}
	})
	t.Run("max_running is computed from rows", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		f.must(f.PutTenant(t.Context(), store.Tenant{Name: tenant, MaxRunning: 2}))
		f.submit(newJobs(5)...)
		ds := f.schedule(100)
		if len(ds) != 2 {
			t.Fatalf("released %d, want 2", len(ds))
		}
		c := f.claim(ds[0].Ref)[0]
		if n := len(f.schedule(100)); n != 0 {
			t.Errorf("released %d above the limit", n)
		}
		f.finish(leaseOf(c), job.Succeeded)
		if n := len(f.schedule(100)); n != 1 {
			t.Errorf("released %d for the one that ended", n)
		}
	})
	t.Run("unclaimed", func(t *testing.T) {
		testUnclaimed(t, newFixture(t, open, Options{TakeBackAfter: 400 * time.Millisecond}))
	})
}

func testUnclaimed(t *testing.T, f *fixture) {
	ctx := t.Context()
	f.submit(newJobs(2)...)
	ds := f.schedule(2)
	if got, err := f.Unclaimed(ctx, time.Hour, 10); err != nil || len(got) != 0 {
		t.Fatalf("at once: %v, %v", got, err)
	}
	f.claim(ds[0].Ref)
	got, err := f.Unclaimed(ctx, 0, 10)
	f.must(err)
	if diff := cmp.Diff(ds[1:], got); diff != "" {
		t.Errorf("unclaimed (-want +got):\n%s", diff)
	}
	if got, err := f.Unclaimed(ctx, time.Hour, 10); err != nil || len(got) != 0 {
		t.Errorf("right after it was published again: %v, %v", got, err)
	}
	f.eventually("taking back", func() bool { return f.reap().JobsTakenBack == 1 })
	f.wantState(ds[1].Job, job.Queued)
	if c := f.claim(ds[1].Ref)[0]; c.Lease != 0 {
		t.Error("a message of the old generation claimed a queued job")
	}
	next := f.schedule(5)
	if len(next) != 1 || next[0].Generation != 2 {
		t.Fatalf("scheduled again: %+v", next)
	}
	if c := f.claim(ds[1].Ref, next[0].Ref); c[0].Lease != 0 || c[1].Lease == 0 {
		t.Errorf("old generation %d, new one %d", c[0].Lease, c[1].Lease)
	}
}
