package lifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pgtest"
	"github.com/assay-run/assay/pkg/store/postgres/internal/read"
)

func openTest(t *testing.T) *Transitions {
	t.Helper()
	db := pgtest.Open(t, testenv.Postgres(t))
	return New(db, read.New(db, 0), Config{PoisonAfter: 3, AgeEvery: time.Minute})
}

// openOne is openTest with a single connection.
func openOne(t *testing.T) *Transitions {
	t.Helper()
	dsn := testenv.Postgres(t)
	pgtest.Open(t, dsn)
	cfg := pgtest.Config(dsn)
	cfg.MaxConns, cfg.MinConns = 1, 1
	db, err := pg.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return New(db, read.New(db, 0), Config{PoisonAfter: 3, AgeEvery: time.Minute})
}

// idleBatches makes n batches of tenant idle, each with a job that may not run. After them it makes one batch
// with 50 jobs that may run, and 1,000 single jobs of tenant busy.
func idleBatches(t *testing.T, s *Transitions, n int, sealed, paused, notBefore, expires string) {
	t.Helper()
	id := `lpad(to_hex(%s), 32, '0')::uuid`
	of := `(SELECT id FROM tenants WHERE name = '%s')`
	for _, q := range []string{
		`DELETE FROM jobs`, `DELETE FROM batches`, `INSERT INTO tenants (name) VALUES ('idle'), ('busy') ON CONFLICT DO NOTHING`,
		fmt.Sprintf(`INSERT INTO batches (id, tenant_id, name, sealed_at, paused_at) SELECT `+id+`, `+of+`, '', %s, %s FROM generate_series(1, %d) g`, "g", "idle", sealed, paused, n),
		fmt.Sprintf(`INSERT INTO jobs (id, batch_id, tenant_id, pool, identity, not_before, expires_at)
			SELECT `+id+`, `+id+`, `+of+`, '', '', %s, %s FROM generate_series(1, %d) g`, "g", "g", "idle", notBefore, expires, n),
		fmt.Sprintf(`INSERT INTO batches (id, tenant_id, name, sealed_at) SELECT `+id+`, `+of+`, '', now()`, "1000000", "idle"),
		fmt.Sprintf(`INSERT INTO jobs (id, batch_id, tenant_id, pool, identity) SELECT `+id+`, `+id+`, `+of+`, '', '' FROM generate_series(1, 50) g`, "1000000 + g", "1000000", "idle"),
		fmt.Sprintf(`INSERT INTO jobs (id, batch_id, tenant_id, pool, identity)
			SELECT `+id+`, '00000000-0000-0000-0000-000000000000', `+of+`, '', '' FROM generate_series(1, 1000) g`, "2000000 + g", "busy"),
		`ANALYZE jobs`, `ANALYZE batches`,
	} {
		if _, err := s.db.Pool.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// TestBatchesWithNothingToRunCostLittle checks that a look's cost follows the jobs that it picks, not the
// idle batches. Jobs behind idle batches get their turn.
func TestBatchesWithNothingToRunCostLittle(t *testing.T) {
	for _, kind := range []struct{ name, sealed, paused, notBefore, expires string }{
		{"not sealed", "NULL", "NULL", "NULL", "NULL"},
		{"paused", "now()", "now()", "NULL", "NULL"},
		{"waiting", "now()", "NULL", "now() + interval '1 hour'", "NULL"},
		{"overdue", "now()", "NULL", "NULL", "now() - interval '1 hour'"},
	} {
		t.Run(kind.name, func(t *testing.T) {
			s := openTest(t)
			s.queues.cheap = time.Hour // each look visits the tenant, however slow this machine is
			look := map[int]time.Duration{}
			for _, n := range []int{10, 10_000} {
				idleBatches(t, s, n, kind.sealed, kind.paused, kind.notBefore, kind.expires)
				var took []time.Duration
				last := 0
				for range 200 { // two tenants share mostSkipped, so 100 looks pass 10,000 batches
					began := time.Now()
					ds, more, err := s.scheduleOnce(t.Context(), []string{""}, 4)
					if err != nil || len(ds) != 4 {
						t.Fatalf("%d dispatched, more: %v, %v; want 4", len(ds), more, err)
					}
					took = append(took, time.Since(began))
					for _, d := range ds {
						if d.Job > "00000000-0000-0000-0000-0000000f4240" && d.Job < "00000000-0000-0000-0000-0000001e8480" {
							last++
						}
					}
					if _, err := s.db.Pool.Exec(t.Context(), `DELETE FROM jobs WHERE state = 'dispatched'`); err != nil {
						t.Fatal(err)
					}
				}
				slices.Sort(took)
				look[n] = took[len(took)/2]
				t.Logf("beside %d: a look %v, %d of the last batch", n, look[n], last)
				if last != 50 {
					t.Errorf("beside %d batches with nothing to run %d jobs of the one behind them ran, want all 50", n, last)
				}
			}
			if look[10_000] > 12*look[10] {
				t.Errorf("a look takes %v beside 10,000 batches with nothing to run, and %v beside 10", look[10_000], look[10])
			}
		})
	}
}

// TestRounds checks that a round passes batches with nothing to run, stays for a while at others, and then
// goes on. So neither waits for ever.
func TestRounds(t *testing.T) {
	t.Parallel()
	const tier = "1 0 p q"
	classes := []string{"p q"}
	first, second := place{Batch: "00000000-0000-0000-0000-00000000000a"}, place{Batch: "00000000-0000-0000-0000-00000000000b", Lane: 3}
	on := func(at place, found bool) roundEnd {
		return roundEnd{tier: tier, what: roundGoesOn, place: at, found: found}
	}
	some := roundEnd{tier: tier, what: roundEnds, found: true}
	var r rounds
	now := time.Now()
	for _, step := range []struct {
		what   string
		after  time.Duration
		ends   []roundEnd
		goesOn bool
		at     string // the start of the next look; "": the oldest
	}{
		{"nothing is said of a tier without a round", 0, nil, false, ""},
		{"nothing found", 0, []roundEnd{on(first, false)}, true, first.json()},
		{"the window is full", 0, []roundEnd{{what: roundWaits}}, false, first.json()},
		{"something found before the end", 0, []roundEnd{some, some}, false, first.json()},
		{"and still, beside what has nothing to run", roundStay / 2, []roundEnd{some, on(second, true)}, false, first.json()},
		{"for long enough, in either order", roundStay, []roundEnd{on(second, true), some}, true, second.json()},
		{"found again", 0, []roundEnd{some}, false, second.json()},
		{"for long enough, and there is no more", 2 * roundStay, []roundEnd{some}, false, ""},
		{"found beside what has nothing to run, with the oldest", 0, []roundEnd{some, on(first, true)}, false, firstPlace.json()},
		{"for long enough, the other order", 2 * roundStay, []roundEnd{some, on(first, true)}, true, first.json()},
		{"the end", 0, nil, false, ""},
		{"begun again", 0, []roundEnd{on(first, false)}, true, first.json()},
		{"nobody looks any more", 2 * time.Minute, []roundEnd{{what: roundWaits}}, false, ""},
	} {
		now = now.Add(step.after)
		r.places(now)
		if goesOn := r.note(classes, step.ends, now); goesOn != step.goesOn {
			t.Errorf("%s: goes on %v", step.what, goesOn)
		}
		want := "{}"
		if step.at != "" {
			want = fmt.Sprintf(`{"%s":%s}`, tier, step.at)
		}
		if got := r.places(now); got != want {
			t.Errorf("%s: it begins at %s, want %s", step.what, got, want)
		}
	}
	r.note(classes, []roundEnd{on(first, false)}, now)
	if r.note([]string{"other"}, nil, now); r.places(now) == "{}" {
		t.Error("a look at another class forgets the rounds of this one")
	}
}

func (p place) json() string { return fmt.Sprintf(`{"batch":"%s","lane":%d}`, p.Batch, p.Lane) }

// TestWhatStandsBehindIsFound checks that jobs behind many idle batches run, and then the jobs among those
// batches that become ready.
func TestWhatStandsBehindIsFound(t *testing.T) {
	s := openTest(t)
	idleBatches(t, s, 2000, "NULL", "NULL", "NULL", "NULL")
	if _, err := s.db.Pool.Exec(t.Context(), `DELETE FROM jobs WHERE batch_id = '00000000-0000-0000-0000-000000000000'`); err != nil {
		t.Fatal(err)
	}
	until := func(what string, found func(job.ID) bool) {
		t.Helper()
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			ds, err := s.Schedule(t.Context(), []string{""}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(ds) == 1 && found(ds[0].Job) {
				return
			}
			if _, err := s.db.Pool.Exec(t.Context(), `DELETE FROM jobs WHERE state = 'dispatched'`); err != nil {
				t.Fatal(err)
			}
		}
		t.Fatalf("%s did not run within 10 seconds", what)
	}
	until("a job of the last batch", func(id job.ID) bool { return id > "00000000-0000-0000-0000-0000000f4240" })
	if _, err := s.db.Pool.Exec(t.Context(), `UPDATE batches SET sealed_at = now() WHERE id = (SELECT min(id::text)::uuid FROM batches)`); err != nil {
		t.Fatal(err)
	}
	until("the job of the first batch, sealed since,", func(id job.ID) bool { return id == "00000000-0000-0000-0000-000000000001" })
}

// TestSinglesKeepNoRound checks that jobs without a batch run beside a round, and do not prolong it.
func TestSinglesKeepNoRound(t *testing.T) {
	s := openTest(t)
	idleBatches(t, s, 2000, "NULL", "NULL", "NULL", "NULL")
	if _, err := s.db.Pool.Exec(t.Context(), `UPDATE jobs SET tenant_id = (SELECT id FROM tenants WHERE name = 'idle')`); err != nil {
		t.Fatal(err)
	}
	// Fewer than the window has room for. Otherwise the look skips batches.
	if _, err := s.db.Pool.Exec(t.Context(), `DELETE FROM jobs WHERE batch_id = '00000000-0000-0000-0000-000000000000' AND id > lpad(to_hex(2000003), 32, '0')::uuid`); err != nil {
		t.Fatal(err)
	}
	for look := range 3 {
		ds, more, err := s.scheduleOnce(t.Context(), []string{""}, 16)
		if want := 3; err != nil || !more || look == 0 && len(ds) != want || look > 0 && len(ds) != 0 {
			t.Errorf("look %d: %d jobs, the round goes on %v, %v; want %d single jobs in the first and that it goes on", look, len(ds), more, err, want)
		}
	}
}
