package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestLiveDays checks that waiting jobs of any day are found, and that finished days are not looked at.
func TestLiveDays(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	now := time.Now().UTC()
	old := now.AddDate(0, 0, -70).Truncate(24 * time.Hour)
	if _, err := s.db.Pool.Exec(ctx, `SELECT assay_partitions($1::date, 60)`, old); err != nil {
		t.Fatal(err)
	}
	look := func() {
		t.Helper()
		if err := s.Maintain(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		id   job.ID
	}{
		{"of a day long ago", job.FirstIDAt(old.Add(50 * time.Hour))},
		{"of a day not so long ago", job.FirstIDAt(old.Add(55 * 24 * time.Hour))},
		{"without a partition", job.FirstIDAt(old.AddDate(-1, 0, 0))},
		{"of the future", job.FirstIDAt(now.AddDate(1, 0, 0))},
		{"of yesterday", job.FirstIDAt(now.Truncate(24 * time.Hour).Add(-2 * time.Hour))},
		{"of now", job.NewID()},
	} {
		t.Run(c.name, func(t *testing.T) {
			look()
			if _, _, err := s.SubmitJob(ctx, store.NewJob{ID: c.id, Tenant: "t", Pool: "p", Spec: []byte(`{"n":1}`)}, store.Idempotency{}, 0); err != nil {
				t.Fatal(err)
			}
			look()
			ds, err := s.Schedule(ctx, []string{"p"}, 10)
			if err != nil || len(ds) != 1 || ds[0].Job != c.id {
				t.Fatalf("scheduled %v, %v, want %s", ds, err, c.id)
			}
			look()
			won, err := s.Claim(ctx, time.Minute, []store.Claim{{Ref: ds[0].Ref, Worker: "w"}})
			if err != nil || won[0].Lease == 0 || len(won[0].Spec) == 0 {
				t.Fatalf("claimed %+v, %v", won, err)
			}
			look()
			if lost, _, err := s.Heartbeat(ctx, time.Minute, []store.Held{{LeaseRef: store.LeaseRef{Job: c.id, Lease: won[0].Lease}, Worker: "w"}}); err != nil || len(lost) > 0 {
				t.Fatalf("lost %v, %v", lost, err)
			}
			if _, err := s.Cancel(ctx, c.id); err != nil {
				t.Fatal(err)
			}
			done := store.Finish{LeaseRef: store.LeaseRef{Job: c.id, Lease: won[0].Lease}, Worker: "w", Outcome: job.OutcomeCanceled, Result: []byte(`{"outcome":"canceled"}`)}
			for range 2 { // the second time it is read back, from a past day
				got, err := s.Finish(ctx, []store.Finish{done})
				if err != nil || len(got) != 1 || got[0] != store.Recorded {
					t.Fatalf("recorded %v, %v", got, err)
				}
				look()
			}
			if j, err := s.Job(ctx, "t", c.id); err != nil || !j.State.Terminal() {
				t.Errorf("read back %v, %v", j, err)
			}
		})
	}
}

// TestLiveBesideLongRead checks that a long reader of the views does not delay the queue.
func TestLiveBesideLongRead(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tx, err := s.db.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var n int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM live_jobs`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	moved := make(chan error, 1)
	go func() { moved <- s.Maintain(ctx) }()
	for range 20 {
		id := job.NewID()
		if _, _, err := s.SubmitJob(ctx, store.NewJob{ID: id, Tenant: "t", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{}, 0); err != nil {
			t.Fatal(err)
		}
		if ds, err := s.Schedule(ctx, []string{"p"}, 100); err != nil || len(ds) != 1 {
			t.Fatalf("scheduled %v, %v", ds, err)
		}
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-moved; err != nil {
		if err := s.Maintain(ctx); err != nil {
			t.Fatal(fmt.Errorf("when it was over: %w", err))
		}
	}
}
