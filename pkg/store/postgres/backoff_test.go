package postgres

import (
	"math"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// TestBackoff checks the wait before each retry, by the database's clock.
func TestBackoff(t *testing.T) {
	t.Parallel()
	ctx, seen := t.Context(), map[float64]bool{}
	s := openTest(t, Config{InfraBudget: 100})
	j := store.NewJob{ID: job.NewID(), Tenant: "acme", Pool: "default", Spec: []byte(`{}`)}
	if _, _, err := s.SubmitJob(ctx, j, store.Idempotency{}, 0); err != nil {
		t.Fatal(err)
	}
	for n := range 30 {
		if _, err := s.db.Pool.Exec(ctx, `UPDATE jobs SET not_before = NULL WHERE id = $1`, pg.UUID(j.ID)); err != nil {
			t.Fatal(err)
		}
		ds, err := s.Schedule(ctx, []string{"default"}, 1)
		if err != nil || len(ds) != 1 {
			t.Fatalf("retry %d: %v, %v", n, ds, err)
		}
		got, err := s.Claim(ctx, time.Minute, []store.Claim{{Ref: ds[0].Ref, Worker: "w"}})
		if err != nil {
			t.Fatal(err)
		}
		// The clock of the transaction lies between the times before and after it.
		var before, after, until time.Time
		if err := s.db.Pool.QueryRow(ctx, `SELECT now()`).Scan(&before); err != nil {
			t.Fatal(err)
		}
		ref := store.LeaseRef{Job: j.ID, Lease: got[0].Lease}
		if err := s.Release(ctx, []store.Release{{LeaseRef: ref, Worker: "w", Reason: job.ReasonInfra}}); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Pool.QueryRow(ctx, `SELECT now(), not_before FROM jobs WHERE id = $1`, pg.UUID(j.ID)).Scan(&after, &until); err != nil {
			t.Fatal(err)
		}
		whole := time.Duration(min(100*math.Pow(2, float64(n)), 10_000)) * time.Millisecond
		if least, most := before.Add(whole/2), after.Add(whole); until.Before(least) || until.After(most) {
			t.Errorf("retry %d waits %v, want %v to %v", n, until.Sub(before), whole/2, whole)
		}
		seen[math.Round(until.Sub(before).Seconds()/whole.Seconds()*100)] = true
	}
	if len(seen) < 5 {
		t.Errorf("%d different shares of the wait in 30 retries", len(seen))
	}
}
