package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

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
	f.revoke(store.LeaseRef{Job: id, Lease: d.Lease - 1}, false)
	f.revoke(lease, true)
	f.revoke(lease, false)
	f.revoke(store.LeaseRef{Job: id}, false)
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
		f.revoke(store.LeaseRef{Job: c.Job}, false) // it was claimed
		f.finish(leaseOf(c), job.Succeeded)
	}
	if r := f.result(id); len(r.Attempts) != 1 {
		t.Errorf("one attempt, and none of a worker that never had it: %+v", r.Attempts)
	}

	assigned = newJob("for a worker, and nobody heard of it")
	assigned.Worker, assigned.LeaseTTL = worker, ttl
	id, _, err = f.SubmitJob(t.Context(), assigned, store.Idempotency{}, 100)
	f.must(err)
	f.revoke(store.LeaseRef{Job: id}, true)
	f.wantState(id, job.Queued)
	f.run()

	assigned = newJob("for a worker, and canceled")
	assigned.Worker, assigned.LeaseTTL = worker, ttl
	id, d, err = f.SubmitJob(t.Context(), assigned, store.Idempotency{}, 100)
	f.must(err)
	_, err = f.Cancel(t.Context(), id)
	f.must(err)
	f.revoke(store.LeaseRef{Job: id, Lease: d.Lease}, false)
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

// A tenant's only job does not wait behind the crowd of another tenant.
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
	f.revoke(d, true)
	isIn(d.Job, job.Queued)
	f.run()
	f.must(f.PutTenant(t.Context(), store.Tenant{Name: "limited", Weight: 1, MaxRunning: 1}))
	f.submitJob(of("heavy"))
	atOnce("a tenant with a limit", "limited", false)
}

// A limit of running jobs holds for jobs that run at once, as soon as it is set. It does not delay jobs while
// there is room.
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
	for range 2 { // two of the waiting jobs, and the third
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
	f.run() // the jobs ahead of it
	if _, atOnce := submit(); !atOnce {
		t.Error("a job waits for a limit that was taken away")
	}
}
