package postgres

import (
	"context"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestRetryOfForgottenJobs checks that a batch can be retried while retention deletes its jobs. The retry has
// the remaining jobs, and is done if there are none.
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

// TestRetryInSlices checks that a batch that is too large for one statement is retried in several. The new
// batch is visible once it is complete.
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

// TestBatchesAreListedInTheOrderOfTheirCommits checks that a slow batch is listed before one written
// meanwhile. So a client that reads the list from the newest on misses none.
func TestBatchesAreListedInTheOrderOfTheirCommits(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	newJob := func() store.NewJob { return store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: []byte(`{}`)} }
	slow, quick, jobs := job.NewID(), job.NewID(), []store.NewJob{newJob(), newJob()}
	if _, err := s.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: "t"}, []store.NewJob{newJob()}); err != nil {
		t.Fatal(err)
	}
	tx, err := s.db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, `INSERT INTO jobs (id, tenant_id, pool) VALUES ($1, 1, 'p')`, string(jobs[1].ID)); err != nil { // the slow one waits for it
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.SubmitBatch(ctx, store.NewBatch{ID: slow, Tenant: "t"}, jobs)
		done <- err
	}()
	for waits := false; !waits; {
		if err := s.db.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			OR NOT granted AND locktype = 'transactionid' AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database()))`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.SubmitBatch(ctx, store.NewBatch{ID: quick, Tenant: "t"}, []store.NewJob{newJob()}); err != nil {
		t.Fatal(err)
	}
	if first, err := s.Batches(ctx, "t", "", 1); err != nil || first[0].ID != quick {
		t.Fatalf("the newest is %+v, %v", first, err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if all, err := s.Batches(ctx, "t", "", 2); err != nil || all[0].ID != slow || all[1].ID != quick {
		t.Errorf("listed %+v, %v; want the one that was committed last first", all, err)
	}
}
