package lifecycle

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var snapshotJobs = flag.Int("snapshot.jobs", 10_000, "jobs of TestLooksBesideASnapshot, a multiple of 1,000")

// openSnapshot keeps a transaction open until the test ends, like a dump or a report. While it is open,
// Postgres cannot remove dead rows or their index entries.
func openSnapshot(t *testing.T, s *Transitions) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), s.db.Pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	for _, q := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM tenants`} {
		if _, err := conn.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLooksBesideASnapshot runs -snapshot.jobs jobs through the queue while a transaction is open. Each look
// starts after the jobs that earlier looks took, so the last looks cost at most twice as much as the first.
func TestLooksBesideASnapshot(t *testing.T) {
	const places, sample = 200, 20
	all := *snapshotJobs
	for name, tenants := range map[string]int{"1 tenant": 1, "20 tenants": 20} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t)
			queueOf(t, s, tenants, 100/tenants, all/100)
			openSnapshot(t, s)
			var took []time.Duration
			for left := all; left > 0; {
				began := time.Now()
				ds, err := s.Schedule(t.Context(), []string{"p"}, places)
				took = append(took, time.Since(began))
				if err != nil || len(ds) != places {
					t.Fatalf("%d jobs are left: dispatched %d, %v; want %d", left, len(ds), err, places)
				}
				ids := make([]string, len(ds))
				for i, d := range ds {
					ids[i] = string(d.Job)
				}
				if _, err := s.db.Pool.Exec(t.Context(), `UPDATE jobs SET state = 'finished', outcome = 'succeeded', ended_at = now() WHERE id = ANY($1)`, ids); err != nil {
					t.Fatal(err)
				}
				left -= len(ds)
			}
			first, last := middle(took[1:sample+1]), middle(took[len(took)-sample:])
			t.Logf("the first looks took %v, the last %v: median of %d", first, last, sample)
			if last > 2*first {
				t.Errorf("a look takes %v after %d jobs beside an open snapshot, and %v at the start", last, all, first)
			}
		})
	}
}

func middle(of []time.Duration) time.Duration {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
