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
		for _, j := range jobs { // the batch left nothing: its ids are free
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
