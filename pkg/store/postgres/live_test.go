package postgres

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestLiveDays: what waits is seen, on whichever day it was submitted; days that are over
// are not looked at.
func TestLiveDays(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	now := time.Now().UTC()
	old := now.AddDate(0, 0, -70).Truncate(24 * time.Hour)
	if _, err := s.pool.Exec(ctx, `SELECT assay_partitions($1::date, 60)`, old); err != nil {
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
			for range 2 { // the second time it is read back, of a day that is over
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

// TestHistoryIsNotPlanned: no statement of the queue has a plan with a day that is over.
func TestHistoryIsNotPlanned(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	old := time.Now().UTC().AddDate(0, 0, -20).Truncate(24 * time.Hour)
	if _, err := s.pool.Exec(ctx, `SELECT assay_partitions($1::date, 15)`, old); err != nil {
		t.Fatal(err)
	}
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	kept := regexp.MustCompile(`(jobs|specs|attempts|results)_` + old.Format("20060102")[:6])
	for _, c := range planned() {
		if slices.Contains(readsHistory, c.name) {
			continue
		}
		plan := explain(t, s, c.sql, c.args)
		for line := range strings.Lines(plan) {
			if m := kept.FindString(line); m != "" && strings.Contains(line, oldPart(line, old)) {
				t.Errorf("%s: %s", c.name, strings.TrimSpace(line))
				break
			}
		}
	}
	day := old.AddDate(0, 0, 3)
	for name, sql := range map[string]string{
		"result": `SELECT id FROM results r WHERE r.id = $1 AND ` + onDay("r.id", job.FirstIDAt(day)),
		"page":   results(job.FirstIDAt(time.Now())),
	} {
		args := `'` + string(nilID) + `'`
		if name == "page" {
			args += `, 0, 0, 10, 1000`
		}
		plan := explain(t, s, sql, args)
		for n := range 15 {
			d := old.AddDate(0, 0, n)
			if (name == "page" || !d.Equal(day)) && strings.Contains(plan, "results_"+d.Format("20060102")) {
				t.Errorf("%s: a plan with the day %s", name, d.Format(time.DateOnly))
			}
		}
	}
}

// readsHistory are the statements that look for records of any day.
var readsHistory = []string{"finished", "repeats", "orphans", "answer", "results"}

// oldPart is the day in a line of a plan if it is one of the 15 from old on, else what no
// line has.
func oldPart(line string, old time.Time) string {
	for n := range 15 {
		if d := old.AddDate(0, 0, n).Format("_20060102"); strings.Contains(line, d) {
			return d
		}
	}
	return "\x00"
}

// TestLiveBesideLongRead: whoever uses the views for long does not hold the queue up.
func TestLiveBesideLongRead(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
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
