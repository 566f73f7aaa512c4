package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// testCancelLabeled cancels by labels of a job and of its batch, in every state. Other jobs must stay.
func testCancelLabeled(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	labeled := func(name, labels string) store.NewJob {
		j := newJob(name)
		j.Spec = fmt.Appendf(nil, `{"name":%q,"labels":%s,"program":{"python":{"code":"1"}}}`, name, labels)
		return j
	}
	const sought = `{"run":"{\"7\"}","more":"x"}` // a value that looks like JSON
	want := map[string]string{"run": `{"7"}`}
	jobs := map[string]store.NewJob{}
	for _, name := range []string{"running", "dispatched", "queued", "gpu", "alone"} {
		jobs[name] = labeled(name, sought)
	}
	for name, labels := range map[string]string{"other value": `{"run":"8"}`, "other key": `{"ran":"{\"7\"}"}`, "none": `{}`} {
		jobs[name] = labeled(name, labels)
	}
	other := labeled("other tenant", sought)
	other.Tenant = "umbrella"
	gpu := jobs["gpu"]
	gpu.Pool = "gpu"
	ended := f.running(labeled("ended", sought))
	f.finish(ended, job.Succeeded)
	f.submit(jobs["running"], jobs["dispatched"])
	ds := f.schedule(2)
	lease := leaseOf(f.claim(ds[0].Ref)[0])
	f.submit(jobs["queued"], gpu, jobs["other value"], jobs["other key"], jobs["none"])
	f.submitJob(jobs["alone"])
	f.submitJob(other)
	unsealed, _, err := f.OpenBatch(ctx, newBatch())
	f.must(err)
	f.must(f.AppendJobs(ctx, unsealed, []store.NewJob{labeled("open", sought)}))

	f.prioritized(want, unsealed)
	_, err = f.CancelMany(ctx, tenant, store.CancelQuery{Labels: nil})
	f.mustBe(err, job.ErrInvalid)
	for _, c := range []struct {
		query       store.CancelQuery
		runs, waits int
	}{
		{store.CancelQuery{Labels: want}, 1, 4}, {store.CancelQuery{Labels: want, State: job.Running}, 1, 0}, {store.CancelQuery{State: job.Queued}, 0, 6},
		{store.CancelQuery{State: job.Dispatched}, 0, 1}, {store.CancelQuery{Batch: job.NewID()}, 0, 0}, {store.CancelQuery{Batch: unsealed}, 0, 0},
	} {
		c.query.DryRun = true
		if got, err := f.CancelMany(ctx, tenant, c.query); err != nil || len(got.Running) != c.runs || got.Ended != int64(c.waits) {
			f.Errorf("would cancel %+v: %+v, %v", c.query, got, err)
		}
	}
	got, err := f.CancelMany(ctx, tenant, store.CancelQuery{Labels: want})
	f.must(err)
	if wanted := (store.Canceled{Running: []store.Canceling{{LeaseRef: lease, Worker: worker, State: job.Running}}, Ended: 4}); !cmp.Equal(got, wanted) {
		f.Errorf("got %+v, want %+v", got, wanted)
	}
	f.finish(lease, job.OutcomeCanceled)
	for name, j := range jobs {
		state := job.Queued
		if slices.Contains([]string{"running", "dispatched", "queued", "gpu", "alone"}, name) {
			state = job.Canceled
		}
		if got := f.state(j.ID); got != state && !(state == job.Queued && got == job.Dispatched) {
			f.Errorf("%s is %s, want %s", name, got, state)
		}
	}
	if j, err := f.Job(ctx, "umbrella", other.ID); err != nil || j.State.Terminal() {
		f.Errorf("another tenant's job: %+v, %v", j, err)
	}
	if r := f.result(ended.Job); r.Outcome != job.Succeeded {
		f.Errorf("a job that was over is %s", r.Outcome)
	}
	if got, err := f.CancelMany(ctx, tenant, store.CancelQuery{Labels: want}); err != nil || !cmp.Equal(got, store.Canceled{}) {
		f.Errorf("sent again: %+v, %v", got, err)
	}
	f.must(f.SealBatch(ctx, unsealed, 1)) // accepted after the cancel

	// Jobs have the labels of their batch, unless they have their own.
	b := newBatch()
	b.Labels = map[string]string{"sweep": "3", "k": "batch"}
	own, inherits := labeled("own", `{"sweep":"4"}`), labeled("inherits", `{"sample":"1"}`)
	_, err = f.SubmitBatch(ctx, b, []store.NewJob{own, inherits})
	f.must(err)
	both := maps.Clone(b.Labels)
	both["sample"] = "1"
	if got, err := f.CancelMany(ctx, tenant, store.CancelQuery{Labels: both}); err != nil || got.Ended != 1 {
		f.Errorf("canceled %+v, %v, want the one that inherits", got, err)
	}
	f.wantState(inherits.ID, job.Canceled)
	f.wantState(own.ID, job.Queued)
}

// prioritized checks that only queued jobs get another priority.
func (f *fixture) prioritized(want map[string]string, unsealed job.ID) {
	f.Helper()
	ctx := f.Context()
	_, err := f.Prioritize(ctx, tenant, store.PriorityQuery{Priority: 7})
	f.mustBe(err, job.ErrInvalid)
	for _, c := range []struct {
		query store.PriorityQuery
		n     int64
	}{
		{store.PriorityQuery{Labels: want, Priority: 7, DryRun: true}, 3}, {store.PriorityQuery{Labels: want, Priority: 0}, 0},
		{store.PriorityQuery{Batch: unsealed, Priority: 7}, 0}, {store.PriorityQuery{Batch: job.NewID(), Priority: 7}, 0},
		{store.PriorityQuery{Labels: want, Priority: 7}, 3}, {store.PriorityQuery{Labels: want, Priority: 7}, 0},
	} {
		if n, err := f.Prioritize(ctx, tenant, c.query); err != nil || n != c.n {
			f.Errorf("prioritize %+v: %d, %v, want %d", c.query, n, err, c.n)
		}
	}
	queue, err := f.Queue(ctx)
	f.must(err)
	var raised int64
	for _, g := range queue {
		if g.Priority == 7 {
			raised += g.Queued
		}
		if g.Priority == 7 && g.Tenant != tenant {
			f.Errorf("another tenant's jobs are raised: %+v", g)
		}
	}
	if raised != 3 {
		f.Errorf("%d jobs are raised, want 3: %+v", raised, queue)
	}
}
