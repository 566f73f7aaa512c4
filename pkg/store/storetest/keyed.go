package storetest

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// testKeyed checks repeated requests under a key whose first request is running, failed, or made a job or
// batch that was erased since.
func testKeyed(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	t.Run("a batch that replaces an open one returns its own id", func(t *testing.T) { testReplace(f.with(t)) })
	t.Run("another request leaves an open batch alone", func(t *testing.T) { testKeyOfOpen(f.with(t)) })
	t.Run("the key of an erased job", func(t *testing.T) { testKeyOfErasedJob(f.with(t)) })
	t.Run("the key of an erased batch", func(t *testing.T) { testKeyOfErasedBatch(f.with(t)) })
}

// openKeyed opens a batch with two jobs under a key.
func (f *fixture) openKeyed(key store.Idempotency) store.NewBatch {
	f.Helper()
	b := newBatch()
	b.Idempotency = key
	_, existed, err := f.OpenBatch(f.Context(), b)
	f.must(err)
	if existed {
		f.Fatal("the key is taken")
	}
	f.must(f.AppendJobs(f.Context(), b.ID, newJobs(2)))
	return b
}

func testReplace(f *fixture) {
	key := store.Idempotency{Key: "replaced", Hash: "h"}
	first := f.openKeyed(key)
	b, jobs := newBatch(), newJobs(3)
	b.Idempotency = key
	if id, err := f.SubmitBatch(f.Context(), b, jobs); err != nil || id != b.ID {
		f.Fatalf("made %q, %v; want %s", id, err, b.ID)
	}
	f.mustBe(f.AppendJobs(f.Context(), first.ID, newJobs(1)), job.ErrConflict)
	if n := f.batch(b.ID).Total; n != 3 {
		f.Errorf("the batch has %d jobs", n)
	}

	ended := f.submit(newJobs(2)...)
	f.finishAll(job.Failed)
	key.Key = "replaced by a retry"
	f.openKeyed(key)
	as := newBatch()
	as.Idempotency = key
	if id, err := f.RetryBatch(f.Context(), ended, as); err != nil || id != as.ID {
		f.Errorf("retry made %q, %v; want %s", id, err, as.ID)
	}

	key.Key = "replaced by a job"
	f.openKeyed(key)
	j := newJob("instead")
	if id, _, err := f.SubmitJob(f.Context(), j, key, 0); err != nil || id != j.ID {
		f.Errorf("job made %q, %v; want %s", id, err, j.ID)
	}
}

func testKeyOfOpen(f *fixture) {
	ctx, key := f.Context(), store.Idempotency{Key: "open", Hash: "h"}
	first := f.openKeyed(key)
	other := newBatch()
	other.Idempotency = store.Idempotency{Key: key.Key, Hash: "another body"}
	jobs := newJobs(2)
	_, err := f.SubmitBatch(ctx, other, jobs)
	f.mustBe(err, job.ErrKeyUsed)
	_, _, err = f.OpenBatch(ctx, other)
	f.mustBe(err, job.ErrKeyUsed)
	_, _, err = f.SubmitJob(ctx, jobs[0], other.Idempotency, 0)
	f.mustBe(err, job.ErrKeyUsed)
	_, err = f.Batch(ctx, tenant, other.ID)
	f.mustBe(err, job.ErrNotFound)
	_, err = f.Job(ctx, tenant, jobs[0].ID)
	f.mustBe(err, job.ErrNotFound)
	f.must(f.AppendJobs(ctx, first.ID, newJobs(1))) // the upload continues unchanged
	f.must(f.SealBatch(ctx, first.ID, 3))
}

func testKeyOfErasedJob(f *fixture) {
	ctx, key := f.Context(), store.Idempotency{Key: "erased", Hash: "h"}
	j := newJob("to be erased")
	_, _, err := f.SubmitJob(ctx, j, key, 0)
	f.must(err)
	f.finishAll(job.Succeeded)
	f.must(f.EraseJob(ctx, act("erase job", string(j.ID)), tenant, j.ID))

	again := newJob("once more")
	id, _, err := f.SubmitJob(ctx, again, key, 0)
	f.mustBe(err, job.ErrErased)
	if id != "" {
		f.Errorf("it returns the id %s beside the error", id)
	}
	_, _, err = f.SubmitJob(ctx, again, store.Idempotency{Key: key.Key, Hash: "another body"}, 0)
	f.mustBe(err, job.ErrKeyUsed)
	_, err = f.Job(ctx, tenant, again.ID)
	f.mustBe(err, job.ErrNotFound)
}

func testKeyOfErasedBatch(f *fixture) {
	ctx, b := f.Context(), newBatch()
	b.Idempotency = store.Idempotency{Key: "erased batch", Hash: "h"}
	_, err := f.SubmitBatch(ctx, b, newJobs(1))
	f.must(err)
	f.finishAll(job.Succeeded)
	ended, err := f.ErasableJobs(ctx, tenant, b.ID, 10)
	f.must(err)
	f.must(f.EraseJobs(ctx, tenant, b.ID, []job.ID{ended[0].Job}))
	f.must(f.EraseBatch(ctx, act("erase batch", string(b.ID)), tenant, b.ID))

	again := newBatch()
	again.Idempotency = b.Idempotency
	_, err = f.SubmitBatch(ctx, again, newJobs(1))
	f.mustBe(err, job.ErrErased)
	_, _, err = f.OpenBatch(ctx, again)
	f.mustBe(err, job.ErrErased)
	_, err = f.Batch(ctx, tenant, again.ID)
	f.mustBe(err, job.ErrNotFound)
}
