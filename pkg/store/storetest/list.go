package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Who has read the list finds what comes to it at its head, whenever it began.
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
