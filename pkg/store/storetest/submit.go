package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func testSubmit(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()

	t.Run("a batch is accepted whole", func(t *testing.T) {
		f := f.with(t)
		jobs := newJobs(3)
		id := f.submit(jobs...)
		b := f.batch(id)
		want := map[job.State]int64{job.Queued: 3, job.Dispatched: 0, job.Running: 0, job.Finished: 0, job.Canceled: 0}
		if d := cmp.Diff(want, b.Counts); d != "" || b.Total != 3 || b.Done() || b.Name != "a batch" || b.Labels["run"] != "7" || b.Tenant != tenant {
			t.Errorf("batch %+v; counts (-want +got):\n%s", b, d)
		}
		for _, j := range jobs {
			f.wantState(j.ID, job.Queued)
		}
	})
	t.Run("or not at all", func(t *testing.T) {
		f := f.with(t)
		taken := newJob("taken")
		f.submitJob(taken)
		b, jobs := newBatch(), newJobs(3)
		jobs[2].ID = taken.ID
		_, err := f.SubmitBatch(ctx, b, jobs)
		f.mustBe(err, job.ErrConflict)
		_, err = f.Batch(ctx, tenant, b.ID)
		f.mustBe(err, job.ErrNotFound)
		_, err = f.Job(ctx, tenant, jobs[0].ID)
		f.mustBe(err, job.ErrNotFound)
	})
	t.Run("nor with a spec that is none", func(t *testing.T) {
		f := f.with(t)
		jobs := newJobs(2)
		jobs[1].Spec = []byte(`[]`)
		_, err := f.SubmitBatch(ctx, newBatch(), jobs)
		f.mustBe(err, job.ErrInvalid)
		_, err = f.Job(ctx, tenant, jobs[0].ID)
		f.mustBe(err, job.ErrNotFound)
	})
	t.Run("an empty batch is done", func(t *testing.T) {
		f := f.with(t)
		if b := f.batch(f.submit()); !b.Done() || b.EndedAt.IsZero() {
			t.Errorf("empty batch: %+v", b)
		}
	})
	t.Run("the same ids said twice are once", func(t *testing.T) {
		f := f.with(t)
		b, jobs := newBatch(), newJobs(2)
		for range 2 {
			id, err := f.SubmitBatch(ctx, b, jobs)
			f.must(err)
			if id != b.ID {
				t.Errorf("got %s, want %s", id, b.ID)
			}
		}
		if got := f.batch(b.ID).Total; got != 2 {
			t.Errorf("%d jobs", got)
		}
		j := newJob("twice")
		if a, b := f.submitJob(j), f.submitJob(j); a != j.ID || b != j.ID {
			t.Errorf("got %s and %s, want %s", a, b, j.ID)
		}
	})
	t.Run("a key names a batch", func(t *testing.T) { testBatchKey(t, f.with(t)) })
	t.Run("a key names a job", func(t *testing.T) { testJobKey(t, f.with(t)) })
	t.Run("a key said by many at once", func(t *testing.T) { testKeyRace(t, f.with(t)) })
	t.Run("dispatch at once", func(t *testing.T) { testDispatchAtOnce(t, newFixture(t, open, Options{})) })
	t.Run("overtake a crowd", func(t *testing.T) { testOvertake(t, newFixture(t, open, Options{})) })
	t.Run("limit of jobs that run at once", func(t *testing.T) { testLimitAtOnce(t, newFixture(t, open, Options{})) })
}

func testBatchKey(t *testing.T, f *fixture) {
	first := newBatch()
	first.Idempotency = store.Idempotency{Key: "k1", Hash: "h1"}
	id, err := f.SubmitBatch(t.Context(), first, newJobs(1))
	f.must(err)

	again := newBatch()
	again.Idempotency = first.Idempotency
	jobs := newJobs(1)
	got, err := f.SubmitBatch(t.Context(), again, jobs)
	f.must(err)
	if got != id || id != first.ID {
		t.Errorf("the same key made %s, then %s", id, got)
	}
	_, err = f.Job(t.Context(), tenant, jobs[0].ID)
	f.mustBe(err, job.ErrNotFound)

	other := newBatch()
	other.Idempotency = store.Idempotency{Key: "k1", Hash: "h2"}
	_, err = f.SubmitBatch(t.Context(), other, newJobs(1))
	f.mustBe(err, job.ErrKeyUsed)

	stranger := newBatch()
	stranger.Tenant, stranger.Idempotency = "somebody else", other.Idempotency
	got, err = f.SubmitBatch(t.Context(), stranger, newJobs(1))
	f.must(err)
	if got != stranger.ID {
		t.Error("keys of two tenants are the same")
	}
}

func testJobKey(t *testing.T, f *fixture) {
	key := store.Idempotency{Key: "job key", Hash: "h1"}
	first, again := newJob("a"), newJob("b")
	id, _, err := f.SubmitJob(t.Context(), first, key, 0)
	f.must(err)
	got, d, err := f.SubmitJob(t.Context(), again, key, 100)
	f.must(err)
	if id != first.ID || got != id || d != nil {
		t.Errorf("the same key made %s, then %s (dispatch %v)", id, got, d)
	}
	_, err = f.Job(t.Context(), tenant, again.ID)
	f.mustBe(err, job.ErrNotFound)
	_, _, err = f.SubmitJob(t.Context(), newJob("c"), store.Idempotency{Key: "job key", Hash: "h2"}, 0)
	f.mustBe(err, job.ErrKeyUsed)
}

func testKeyRace(t *testing.T, f *fixture) {
	const n = 8
	ids := make([]job.ID, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			b := newBatch()
			b.Idempotency = store.Idempotency{Key: "race", Hash: "h"}
			id, err := f.SubmitBatch(t.Context(), b, newJobs(5))
			if err != nil {
				t.Error(err)
			}
			ids[i] = id
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("one key made %v", ids)
		}
	}
}

func testDispatchAtOnce(t *testing.T, f *fixture) {
	j := newJob("first")
	id, d, err := f.SubmitJob(t.Context(), j, store.Idempotency{}, 100)
	f.must(err)
	want := &store.Dispatch{Ref: store.Ref{Job: id, Generation: 1}, Pool: pool, TraceParent: j.TraceParent, Tenant: j.Tenant}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Fatalf("dispatch (-want +got):\n%s", diff)
	}
	f.wantState(id, job.Dispatched)
	if got := f.claim(d.Ref)[0]; got.Lease == 0 {
		t.Error("its claim was refused")
	}

	assigned := newJob("for a worker")
	assigned.Worker, assigned.LeaseTTL = worker, ttl
	id, d, err = f.SubmitJob(t.Context(), assigned, store.Idempotency{}, 100)
	f.must(err)
	if d == nil || d.Lease == 0 {
		t.Fatalf("a job for a worker has no lease: %+v", d)
	}
	f.wantState(id, job.Running)
	if got := f.claimAs("another", ttl, d.Ref)[0]; got.Lease != 0 {
		t.Errorf("another worker claimed it: %+v", got)
	}
	if got := f.claim(d.Ref)[0]; got.Lease != d.Lease {
		t.Errorf("its own worker's claim yields lease %d, want %d", got.Lease, d.Lease)
	}
	f.finish(store.LeaseRef{Job: id, Lease: d.Lease}, job.Succeeded)
	f.wantState(id, job.Finished)

	assigned = newJob("for a worker that does not want it")
	assigned.Worker, assigned.LeaseTTL = worker, ttl
	id, d, err = f.SubmitJob(t.Context(), assigned, store.Idempotency{}, 100)
	f.must(err)
	lease := store.LeaseRef{Job: id, Lease: d.Lease}
	f.unassign(store.LeaseRef{Job: id, Lease: d.Lease - 1}, false)
	f.unassign(lease, true)
	f.unassign(lease, false)
	f.unassign(store.LeaseRef{Job: id}, false)
	back, err := f.Job(t.Context(), tenant, id)
	f.must(err)
	if back.State != job.Queued || !back.StartedAt.IsZero() || back.Worker != "" {
		t.Errorf("taken back: %+v", back)
	}
	assigned = newJob("for a worker, behind another")
	assigned.Worker, assigned.LeaseTTL = worker, ttl
	if _, d, err = f.SubmitJob(t.Context(), assigned, store.Idempotency{}, 100); err != nil || d != nil {
		t.Errorf("assigned past a queued job: %+v, %v", d, err)
	}
	for _, c := range f.run() {
		f.unassign(store.LeaseRef{Job: c.Job}, false) // it was claimed
		f.finish(leaseOf(c), job.Succeeded)
	}
	if r := f.result(id); len(r.Attempts) != 1 {
		t.Errorf("one attempt, and none of a worker that never had it: %+v", r.Attempts)
	}

	assigned = newJob("for a worker, and nobody heard of it")
	assigned.Worker, assigned.LeaseTTL = worker, ttl
	id, _, err = f.SubmitJob(t.Context(), assigned, store.Idempotency{}, 100)
	f.must(err)
	f.unassign(store.LeaseRef{Job: id}, true)
	f.wantState(id, job.Queued)
	f.run()

	assigned = newJob("for a worker, and canceled")
	assigned.Worker, assigned.LeaseTTL = worker, ttl
	id, d, err = f.SubmitJob(t.Context(), assigned, store.Idempotency{}, 100)
	f.must(err)
	_, err = f.Cancel(t.Context(), id)
	f.must(err)
	f.unassign(store.LeaseRef{Job: id, Lease: d.Lease}, false)
	f.wantState(id, job.Running)
	f.must(f.Release(t.Context(), []store.Release{{Worker: worker, LeaseRef: store.LeaseRef{Job: id, Lease: d.Lease}, Reason: job.ReasonPreempted}}))
	f.wantState(id, job.Canceled)

	other := newJob("in another pool")
	other.Pool = "gpu"
	f.submitJob(other)
	if _, d, err = f.SubmitJob(t.Context(), newJob("second"), store.Idempotency{}, 100); err != nil || d == nil {
		t.Errorf("a queue in another pool is in its way: %v, %v", d, err)
	}
	if _, d, err = f.SubmitJob(t.Context(), newJob("past a rival"), store.Idempotency{}, 100, "gpu"); err != nil || d != nil {
		t.Errorf("dispatched past a queued job of a rival: %v, %v", d, err)
	}
	f.run()
	for range 2 {
		if _, d, err = f.SubmitJob(t.Context(), newJob("within the window"), store.Idempotency{}, 3); err != nil || d == nil {
			t.Errorf("the window has room, but: %v, %v", d, err)
		}
	}
	above, d, err := f.SubmitJob(t.Context(), newJob("above the window"), store.Idempotency{}, 3)
	if err != nil || d != nil {
		t.Errorf("dispatched above the window: %v, %v", d, err)
	}
	f.wantState(above, job.Queued)
	f.run()
	ahead := f.submitJob(newJob("ahead"))
	_, d, err = f.SubmitJob(t.Context(), newJob("behind"), store.Idempotency{}, 100)
	f.must(err)
	if d != nil {
		t.Error("dispatched past a queued job")
	}
	f.wantState(ahead, job.Queued)
	f.run()

	f.must(f.PutTenant(t.Context(), store.Tenant{Name: tenant, Weight: 1, MaxRunning: 4}))
	if _, d, err = f.SubmitJob(t.Context(), newJob("above the limit"), store.Idempotency{}, 100); err != nil || d != nil {
		t.Errorf("dispatched above max_running: %v, %v", d, err)
	}
}

// A lone job of a tenant that has nothing else does not wait behind the crowd of one other.
func testOvertake(t *testing.T, f *fixture) {
	of := func(tenant string) store.NewJob {
		j := newJob("of " + tenant)
		j.Tenant, j.Worker, j.LeaseTTL = tenant, worker, ttl
		return j
	}
	isIn := func(id job.ID, want job.State) {
		t.Helper()
		j, err := f.Job(t.Context(), "", id)
		f.must(err)
		if j.State != want {
			t.Errorf("%s is %s, want %s", id, j.State, want)
		}
	}
	atOnce := func(what, tenant string, want bool) store.LeaseRef {
		t.Helper()
		id, d, err := f.SubmitJob(t.Context(), of(tenant), store.Idempotency{}, 100)
		f.must(err)
		if got := d != nil && d.Lease != 0; got != want {
			t.Fatalf("%s: runs at once: %v, want %v", what, got, want)
		}
		if !want {
			isIn(id, job.Queued)
			return store.LeaseRef{}
		}
		isIn(id, job.Running)
		return store.LeaseRef{Job: id, Lease: d.Lease}
	}
	f.must(f.PutTenant(t.Context(), store.Tenant{Name: "heavy", Weight: 2}))
	for range 4 {
		f.submitJob(of("crowd"))
	}
	atOnce("nothing of the crowd runs yet", "a", false)
	for _, d := range f.schedule(2) { // one of each
		f.claim(d.Ref)
	}
	atOnce("the crowd's own", "crowd", false)
	b := atOnce("beside a crowd that runs its share", "b", true)
	atOnce("while another of the tenant's runs", "b", false)
	atOnce("past jobs of two others", "c", false)
	f.finish(b, job.Succeeded)
	for range 2 { // all but the crowd's
		f.run()
	}

	for range 3 {
		f.submitJob(of("heavy"))
	}
	atOnce("past those of more weight that run less than their share", "d", false)
	f.run()
	for range 3 {
		f.submitJob(of("heavy"))
	}
	d := atOnce("past those of more weight that run their share", "e", true)
	f.unassign(d, true)
	isIn(d.Job, job.Queued)
	f.run()
	f.must(f.PutTenant(t.Context(), store.Tenant{Name: "limited", Weight: 1, MaxRunning: 1}))
	f.submitJob(of("heavy"))
	atOnce("a tenant with a limit", "limited", false)
}

// A limit of running jobs holds for those that run at once, from when it is set on, and
// does not keep them waiting where there is room.
func testLimitAtOnce(t *testing.T, f *fixture) {
	submit := func() (store.LeaseRef, bool) {
		t.Helper()
		j := newJob("j")
		j.Worker, j.LeaseTTL = worker, ttl
		id, d, err := f.SubmitJob(t.Context(), j, store.Idempotency{}, 100)
		f.must(err)
		if d == nil || d.Lease == 0 {
			f.wantState(id, job.Queued)
			return store.LeaseRef{}, false
		}
		f.wantState(id, job.Running)
		return store.LeaseRef{Job: id, Lease: d.Lease}, true
	}
	var held []store.LeaseRef
	for range 3 {
		l, atOnce := submit()
		if !atOnce {
			t.Fatal("a job of a tenant without a limit waits")
		}
		held = append(held, l)
	}
	f.must(f.PutTenant(t.Context(), store.Tenant{Name: tenant, Weight: 1, MaxRunning: 2}))
	for range 3 {
		if _, atOnce := submit(); atOnce {
			t.Error("a job runs at once above a limit that was set meanwhile")
		}
	}
	for _, l := range held {
		f.finish(l, job.Succeeded)
	}
	for range 2 { // two of those that waited, and the third
		for _, c := range f.run() {
			f.finish(leaseOf(c), job.Succeeded)
		}
	}
	for i := range 3 {
		if _, atOnce := submit(); atOnce != (i < 2) {
			t.Errorf("job %d of a tenant that may run 2: runs at once %v", i, atOnce)
		}
	}
	f.must(f.PutTenant(t.Context(), store.Tenant{Name: tenant, Weight: 1}))
	f.run() // what is ahead
	if _, atOnce := submit(); !atOnce {
		t.Error("a job waits for a limit that was taken away")
	}
}

func testOpenBatch(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	opened := func(f *fixture, key store.Idempotency) store.NewBatch {
		b := newBatch()
		b.Idempotency = key
		id, existed, err := f.OpenBatch(ctx, b)
		f.must(err)
		if id != b.ID || existed {
			f.Fatalf("opened %s (existed %v), want %s", id, existed, b.ID)
		}
		return b
	}
	t.Run("invisible until sealed", func(t *testing.T) {
		f := f.with(t)
		b, jobs := opened(f, store.Idempotency{}), newJobs(4)
		f.must(f.AppendJobs(ctx, b.ID, jobs[:3]))
		f.must(f.AppendJobs(ctx, b.ID, jobs[3:]))
		if ds := f.schedule(100); len(ds) != 0 {
			t.Errorf("scheduled %d jobs of an open batch", len(ds))
		}
		_, err := f.Batch(ctx, tenant, b.ID)
		f.mustBe(err, job.ErrNotFound)
		_, err = f.Job(ctx, tenant, jobs[0].ID)
		f.mustBe(err, job.ErrNotFound)
		f.mustBe(f.SealBatch(ctx, b.ID, 5), job.ErrConflict)
		f.must(f.SealBatch(ctx, b.ID, 4))
		f.must(f.SealBatch(ctx, b.ID, 4))
		if got := f.batch(b.ID); got.Total != 4 || got.Counts[job.Queued] != 4 {
			t.Errorf("sealed: %+v", got)
		}
		f.mustBe(f.AppendJobs(ctx, b.ID, newJobs(1)), job.ErrConflict)
		f.must(f.DropBatch(ctx, b.ID))
		if ds := f.schedule(100); len(ds) != 4 {
			t.Errorf("scheduled %d jobs of 4", len(ds))
		}
	})
	t.Run("dropped", func(t *testing.T) {
		f := f.with(t)
		b, jobs := opened(f, store.Idempotency{Key: "dropped", Hash: "h"}), newJobs(3)
		f.must(f.AppendJobs(ctx, b.ID, jobs))
		f.must(f.DropBatch(ctx, b.ID))
		f.must(f.DropBatch(ctx, b.ID))
		f.mustBe(f.AppendJobs(ctx, b.ID, newJobs(1)), job.ErrConflict)
		f.mustBe(f.SealBatch(ctx, b.ID, 3), job.ErrConflict)
		opened(f, store.Idempotency{Key: "dropped", Hash: "h"})
		for _, j := range jobs { // nothing is left: the ids are free
			f.submitJob(j)
		}
	})
	t.Run("a key replaces an open batch, and finds a sealed one", func(t *testing.T) {
		f := f.with(t)
		key := store.Idempotency{Key: "open", Hash: "h"}
		old := opened(f, key)
		f.must(f.AppendJobs(ctx, old.ID, newJobs(2)))
		b := opened(f, key)
		f.mustBe(f.AppendJobs(ctx, old.ID, newJobs(1)), job.ErrConflict)
		f.mustBe(f.SealBatch(ctx, old.ID, 2), job.ErrConflict)
		f.must(f.AppendJobs(ctx, b.ID, newJobs(1)))
		f.must(f.SealBatch(ctx, b.ID, 1))
		again := newBatch()
		again.Idempotency = key
		id, existed, err := f.OpenBatch(ctx, again)
		f.must(err)
		if id != b.ID || !existed {
			t.Errorf("opened %s (existed %v), want the sealed %s", id, existed, b.ID)
		}
		again.Idempotency.Hash = "other"
		_, _, err = f.OpenBatch(ctx, again)
		f.mustBe(err, job.ErrKeyUsed)
	})
	t.Run("abandoned", func(t *testing.T) {
		f, b := newFixture(t, open, Options{OpenBatchTTL: 200 * time.Millisecond}), newBatch()
		_, _, err := f.OpenBatch(ctx, b)
		f.must(err)
		f.must(f.AppendJobs(ctx, b.ID, newJobs(2)))
		f.eventually("drop of an abandoned batch", func() bool { return f.reap().BatchesDropped == 1 })
		f.mustBe(f.SealBatch(ctx, b.ID, 2), job.ErrConflict)
		if st := f.reap(); st.BatchesDropped != 0 {
			t.Error("dropped again")
		}
	})
}

func testRetryBatch(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	id := f.submit(newJobs(4)...)
	as := newBatch()
	as.Name = ""
	as.Idempotency = store.Idempotency{Key: "retry", Hash: "h"}
	traceOf := func(id job.ID) string { return strings.ReplaceAll(string(id), "-", "") }
	as.Trace = func(id job.ID, _ string) string { return "00-" + traceOf(id) + "-b7ad6b7169203331-01" }
	_, err := f.RetryBatch(ctx, id, as)
	f.mustBe(err, job.ErrConflict) // not done
	for i, c := range f.run() {
		f.finish(leaseOf(c), []job.Outcome{job.Succeeded, job.Failed, job.TimedOut, job.Succeeded}[i])
	}
	made, err := f.RetryBatch(ctx, id, as)
	f.must(err)
	if b := f.batch(made); made != as.ID || b.Total != 2 || b.Counts[job.Queued] != 2 || b.Name != "a batch" || b.RetryOf != id {
		t.Errorf("made %s: %+v", made, b)
	}
	again := newBatch()
	again.Idempotency = as.Idempotency
	if got, err := f.RetryBatch(ctx, id, again); err != nil || got != made {
		t.Errorf("the same key made %s, %v", got, err)
	}
	names := map[string]bool{}
	for _, c := range f.run() {
		f.finish(leaseOf(c), job.Succeeded)
		r := f.result(c.Job)
		names[r.Name] = true
		if r.TraceID != traceOf(c.Job) || c.TraceParent != as.Trace(c.Job, "") {
			t.Errorf("the trace of a job that runs again is %q, %q; want its own", r.TraceID, c.TraceParent)
		}
	}
	if want := map[string]bool{"job-1": true, "job-2": true}; !cmp.Equal(names, want) {
		t.Errorf("ran %v again, want %v", names, want)
	}
	_, err = f.RetryBatch(ctx, made, newBatch())
	f.mustBe(err, job.ErrConflict) // all succeeded
	_, err = f.RetryBatch(ctx, job.NewID(), newBatch())
	f.mustBe(err, job.ErrNotFound)
}
