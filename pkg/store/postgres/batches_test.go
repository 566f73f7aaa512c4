package postgres

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// A batch may be retried while retention takes its jobs away: the retry is then
// of what is left, and done if that is nothing.
func TestRetryOfForgottenJobs(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	old := store.NewBatch{ID: job.NewID(), Tenant: "acme"}
	if _, err := s.SubmitBatch(t.Context(), old, []store.NewJob{{ID: job.NewID(), Tenant: "acme", Pool: "p", Spec: []byte(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CancelBatch(t.Context(), old.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Pool.Exec(t.Context(), `DELETE FROM results`); err != nil {
		t.Fatal(err)
	}
	made, err := s.RetryBatch(t.Context(), old.ID, store.NewBatch{ID: job.NewID(), Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.Batch(t.Context(), "acme", made); err != nil || b.Total != 0 || !b.Done() || b.EndedAt.IsZero() {
		t.Errorf("got %+v, %v", b, err)
	}
}

// A batch that is too large for one statement is retried in several, and is seen when all
// of it is there.
func TestRetryInSlices(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{retrySlice: 3})
	ctx := t.Context()
	old := store.NewBatch{ID: job.NewID(), Tenant: "acme", Name: "a batch", Callback: &job.Callback{URL: "https://example.org/"}}
	var jobs []store.NewJob
	for i := range 9 {
		jobs = append(jobs, store.NewJob{ID: job.NewID(), Tenant: "acme", Pool: "p", Priority: i, Spec: []byte(`{}`)})
	}
	if _, err := s.SubmitBatch(ctx, old, jobs); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CancelBatch(ctx, old.ID); err != nil {
		t.Fatal(err)
	}
	as := store.NewBatch{ID: job.NewID(), Tenant: "acme", Idempotency: store.Idempotency{Key: "again", Hash: "h"}}
	made, err := s.RetryBatch(ctx, old.ID, as)
	if err != nil || made != as.ID {
		t.Fatalf("made %s, %v", made, err)
	}
	b, err := s.Batch(ctx, "acme", made)
	if err != nil || b.Total != 9 || b.Counts[job.Queued] != 9 || b.Name != "a batch" || b.RetryOf != old.ID || b.Callback == nil {
		t.Errorf("got %+v, %v", b, err)
	}
	if sum := queryStrings(t, s, `SELECT sum(priority)::text FROM jobs WHERE state = 'queued'`); sum[0] != "36" {
		t.Errorf("the priorities of its jobs add up to %s: each shall be there once", sum[0])
	}
	again := store.NewBatch{ID: job.NewID(), Tenant: "acme", Idempotency: as.Idempotency}
	if got, err := s.RetryBatch(ctx, old.ID, again); err != nil || got != made {
		t.Errorf("the same key made %s, %v", got, err)
	}
	if ds, err := s.Schedule(ctx, []string{"p"}, 100); err != nil || len(ds) != 9 {
		t.Errorf("%d jobs are scheduled, %v", len(ds), err)
	}
}
