package storetest

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// testErase checks that readers do not find erased jobs, that totals still add up, and that unfinished jobs
// stay.
func testErase(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	action := func(what string, id job.ID) *store.Action {
		return &store.Action{ID: job.NewID(), Actor: "me", Action: what, Subject: string(id)}
	}
	jobs := newJobs(3)
	batch := f.submit(jobs...)
	claims := f.run()
	first := jobs[0].ID
	for _, c := range claims[:2] {
		f.finish(leaseOf(c), job.Failed)
	}
	erased := claims[0].Job
	f.mustBe(f.EraseJob(ctx, action("erase job", erased), tenant, erased), job.ErrConflict) // its batch is not over
	f.mustBe(f.EraseJob(ctx, action("erase job", claims[2].Job), tenant, claims[2].Job), job.ErrConflict)
	_, err := f.ErasableJobs(ctx, tenant, batch, 10)
	f.mustBe(err, job.ErrConflict)
	f.mustBe(f.EraseBatch(ctx, action("erase batch", batch), tenant, batch), job.ErrConflict)
	f.finish(leaseOf(claims[2]), job.Succeeded)

	f.mustBe(f.EraseJob(ctx, action("erase job", erased), "another", erased), job.ErrNotFound)
	a := action("erase job", erased)
	f.must(f.EraseJob(ctx, a, tenant, erased))
	f.mustBe(f.EraseJob(ctx, action("erase job", erased), tenant, erased), job.ErrNotFound)
	_, err = f.Job(ctx, tenant, erased)
	f.mustBe(err, job.ErrNotFound)
	_, err = f.Result(ctx, tenant, erased)
	f.mustBe(err, job.ErrNotFound)
	if b := f.batch(batch); b.Total != 2 || b.Outcomes[job.Failed] != 1 || b.Outcomes[job.Succeeded] != 1 || !b.Done() {
		t.Errorf("the batch of it: %+v", b)
	}
	if v, err := f.Verify(ctx, store.VerifyQuery{Batch: batch, Limit: 1}); err != nil || len(v[0].Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if got := f.results(batch, 1); len(got) != 2 {
		t.Errorf("%d results are left", len(got))
	}
	if done, err := f.Actions(ctx, store.ActionQuery{Subject: string(erased), Limit: 10}); err != nil || len(done) != 1 || done[0].ID != a.ID || done[0].Outcome != store.ActionDone {
		t.Errorf("records: %+v, %v", done, err)
	}

	_, err = f.ErasableJobs(ctx, "another", batch, 10)
	f.mustBe(err, job.ErrNotFound)
	for {
		ended, err := f.ErasableJobs(ctx, tenant, batch, 1)
		f.must(err)
		if len(ended) == 0 {
			break
		}
		f.mustBe(f.EraseBatch(ctx, action("erase batch", batch), tenant, batch), job.ErrConflict)
		f.must(f.EraseJobs(ctx, tenant, batch, []job.ID{ended[0].Job}))
	}
	f.must(f.EraseBatch(ctx, action("erase batch", batch), tenant, batch))
	_, err = f.Batch(ctx, tenant, batch)
	f.mustBe(err, job.ErrNotFound)
	_, err = f.Job(ctx, tenant, first)
	f.mustBe(err, job.ErrNotFound)

	alone := f.running(newJob("alone"))
	f.mustBe(f.EraseJob(ctx, action("erase job", alone.Job), tenant, alone.Job), job.ErrConflict)
	f.finish(alone, job.Succeeded)
	f.must(f.EraseJob(ctx, action("erase job", alone.Job), tenant, alone.Job))
}
