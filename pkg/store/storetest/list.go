package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// A client that has read the list finds later additions at its head, whenever they began.
func testLongUpload(t *testing.T, f *fixture) {
	ctx := t.Context()
	list := func(before job.ID) (ids []job.ID) {
		t.Helper()
		page, err := f.Batches(ctx, tenant, before, 10)
		f.must(err)
		for _, b := range page {
			ids = append(ids, b.ID)
		}
		return ids
	}
	early, err := f.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: tenant}, nil)
	f.must(err)
	long := store.NewBatch{ID: job.NewID(), Tenant: tenant}
	_, _, err = f.OpenBatch(ctx, long)
	f.must(err)
	f.must(f.AppendJobs(ctx, long.ID, newJobs(1)))
	late := f.submit(newJobs(1)...)
	if diff := cmp.Diff([]job.ID{late, early}, list("")); diff != "" {
		t.Errorf("while it is open (-want +got):\n%s", diff)
	}
	f.must(f.SealBatch(ctx, long.ID, 1))
	if diff := cmp.Diff([]job.ID{long.ID, late, early}, list("")); diff != "" {
		t.Errorf("once it is sealed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]job.ID{early}, list(late)); diff != "" {
		t.Errorf("behind one that was sealed earlier (-want +got):\n%s", diff)
	}
	open := store.NewBatch{ID: job.NewID(), Tenant: "another"}
	_, _, err = f.OpenBatch(ctx, open)
	f.must(err)
	for _, none := range []job.ID{job.NewID(), open.ID} {
		_, err = f.Batches(ctx, tenant, none, 10)
		f.mustBe(err, job.ErrNotFound)
	}
	f.must(f.SealBatch(ctx, open.ID, 0))
	_, err = f.Batches(ctx, tenant, open.ID, 10)
	f.mustBe(err, job.ErrNotFound)
}

// testInputs checks that the needed inputs are those of unfinished jobs. Recent submissions renew the age of
// their inputs, so only old jobs and retried jobs are looked up.
func testInputs(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	ref := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	with := func(name, c string) store.NewJob {
		j := newJob(name)
		j.Spec = fmt.Appendf(nil, `{"name":%q,"files":{"/workspace/in":{"blob":%q}},"program":{"python":{"code":"1"}}}`, name, ref(c))
		return j
	}
	want := func(before time.Time, refs ...string) {
		t.Helper()
		var in []store.Input
		for _, r := range refs {
			in = append(in, store.Input{Tenant: tenant, Blob: ref(r)})
		}
		got, err := f.Inputs(ctx, before)
		f.must(err)
		if diff := cmp.Diff(in, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(func(a, b store.Input) bool { return a.Blob < b.Blob })); diff != "" {
			t.Errorf("inputs (-want +got):\n%s", diff)
		}
	}
	over := with("over", "a")
	batch := f.submit(over)
	f.finish(leaseOf(f.claim(f.schedule(1)[0].Ref)[0]), job.Failed)
	f.running(with("running", "b"))
	f.submit(with("dispatched", "c"))
	f.schedule(1)
	f.submit(with("queued", "d"), with("queued, too", "d"), newJob("without"))
	unsealed := store.NewBatch{ID: job.NewID(), Tenant: tenant}
	_, _, err := f.OpenBatch(ctx, unsealed)
	f.must(err)
	f.must(f.AppendJobs(ctx, unsealed.ID, []store.NewJob{with("uploading", "e")}))
	hence, ago := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	want(hence, "b", "c", "d", "e")
	want(ago)
	_, err = f.RetryBatch(ctx, batch, newBatch())
	f.must(err)
	want(ago, "a")
}
