package postgres

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestLongRunsAreNotSuspected checks that a job lost long after its start is not blamed for the end of its
// worker.
func TestLongRunsAreNotSuspected(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{PoisonAfter: 2, RetryDelay: -1})
	ctx := t.Context()
	id := job.NewID()
	if _, _, err := s.SubmitJob(ctx, store.NewJob{ID: id, Tenant: "a", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{}, 0); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		ds, err := s.Schedule(ctx, []string{"p"}, 1)
		if err != nil || len(ds) != 1 {
			t.Fatalf("%v, %v", ds, err)
		}
		if _, err := s.Claim(ctx, time.Minute, []store.Claim{{Ref: ds[0].Ref, Worker: "w"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.db.Pool.Exec(ctx, `UPDATE jobs SET started_at = now() - interval '5 minutes', lease_until = now() - interval '1 second'`); err != nil {
			t.Fatal(err)
		}
		if st, err := s.ReapLeases(ctx); err != nil || st.LeasesExpired != 1 || st.JobsLost != 0 {
			t.Fatalf("%+v, %v", st, err)
		}
	}
}

// TestTwoAreNotBlamedForTheLast checks that neither of two suspects that run beside each other is given up.
// That can happen because concurrent claims do not see each other.
func TestTwoAreNotBlamedForTheLast(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{PoisonAfter: 2, PoisonWait: time.Millisecond, RetryDelay: -1})
	ctx := t.Context()
	if err := s.PutWorkers(ctx, []store.Worker{{ID: "w", Pool: "p"}, {ID: "other", Pool: "p"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := s.SubmitJob(ctx, store.NewJob{ID: job.NewID(), Tenant: "a", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	ds, err := s.Schedule(ctx, []string{"p"}, 2)
	if err != nil || len(ds) != 2 {
		t.Fatalf("%v, %v", ds, err)
	}
	if _, err := s.Claim(ctx, time.Minute, []store.Claim{{Ref: ds[0].Ref, Worker: "w"}, {Ref: ds[1].Ref, Worker: "w"}}); err != nil {
		t.Fatal(err)
	}
	lost := func(want int64) {
		t.Helper()
		if _, err := s.db.Pool.Exec(ctx, `UPDATE jobs SET kills = 1, lease_until = now() - interval '1 second' WHERE state = 'running'`); err != nil {
			t.Fatal(err)
		}
		if st, err := s.ReapLeases(ctx); err != nil || st.LeasesExpired == 0 {
			t.Fatalf("%+v, %v", st, err)
		}
		var blamed int64
		if err := s.db.Pool.QueryRow(ctx, `SELECT count(*) FROM jobs WHERE kills > 1`).Scan(&blamed); err != nil || blamed != want {
			t.Fatalf("%d are blamed for the last, want %d (%v)", blamed, want, err)
		}
	}
	lost(0)
	if ds, err = s.Schedule(ctx, []string{"p"}, 1); err != nil || len(ds) != 1 {
		t.Fatalf("%v, %v", ds, err)
	}
	if _, err := s.Claim(ctx, time.Minute, []store.Claim{{Ref: ds[0].Ref, Worker: "w"}}); err != nil {
		t.Fatal(err)
	}
	lost(1)
}
