package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// reapAll runs all steps of the reaper.
func reapAll(ctx context.Context, s *Store) (store.ReapStats, error) {
	st, err := s.ReapLeases(ctx)
	rest, err2 := s.Reap(ctx)
	st.Add(rest)
	return st, errors.Join(err, err2)
}

// TestReapMakesProgress checks that each step reaches the one row that it can change, however many rows
// before it are locked.
func TestReapMakesProgress(t *testing.T) {
	t.Parallel()
	const (
		jobs   = `UPDATE jobs SET `
		free   = `SELECT count(*) FROM `
		locked = ` LIMIT 600 FOR UPDATE`
		many   = ` LIMIT 5100 FOR UPDATE`
	)
	for _, c := range []struct {
		name  string
		jobs  int    // to begin with
		setup string // makes all of it due
		lock  string // all of it but one
		left  string // counts what was not done
		want  int
	}{
		{"leases", 601, jobs + `state = 'running', dispatch_gen = 1, lease = nextval('leases'), worker = 'w', started_at = now() - interval '1 hour', lease_until = now() - interval '1 second'`,
			`SELECT FROM jobs` + locked, free + `jobs WHERE state = 'running'`, 600},
		{"overdue jobs", 601, jobs + `expires_at = now() - interval '1 second'`, `SELECT FROM jobs` + locked, free + `jobs WHERE state = 'queued'`, 600},
		{"jobs that nobody claims", 601, jobs + `state = 'dispatched', dispatch_gen = 1, dispatched_at = now() - interval '1 hour', published_at = now()`,
			`SELECT FROM jobs` + locked, free + `jobs WHERE state = 'dispatched'`, 600},
		{"blames", 0, `INSERT INTO blames (job_id, lease, worker, blamed_at) SELECT gen_random_uuid(), 1, 'w', now() - interval '2 hours' FROM generate_series(1, 601)`,
			`SELECT FROM blames` + locked, free + `blames`, 600},
		{"idempotency keys", 0, `INSERT INTO idempotency_keys (tenant_id, key, hash, made, created_at) SELECT 1, n::text, '', gen_random_uuid(), now() - interval '2 days' FROM generate_series(1, 5101) n`,
			`SELECT FROM idempotency_keys` + many, free + `idempotency_keys`, 5100},
		{"workers", 0, `INSERT INTO workers (id, pool, version, slots, busy, draining, started_at, seen_at)
			SELECT n::text, 'p', '', 1, 0, false, now(), now() - interval '2 days' FROM generate_series(1, 5101) n`,
			`SELECT FROM workers` + many, free + `workers`, 5100},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openTest(t, Config{})
			ctx := t.Context()
			if c.jobs > 0 {
				var ns []store.NewJob
				for range c.jobs {
					ns = append(ns, store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: []byte(`{}`)})
				}
				if _, err := s.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: "t"}, ns); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.db.Pool.Exec(ctx, c.setup); err != nil {
				t.Fatal(err)
			}
			tx, err := s.db.Pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			if _, err := tx.Exec(ctx, c.lock); err != nil {
				t.Fatal(err)
			}
			count := func() (n int) {
				if err := s.db.Pool.QueryRow(ctx, c.left).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			if _, err := reapAll(ctx, s); err != nil {
				t.Fatal(err)
			}
			if n := count(); n != c.want {
				t.Errorf("%d are left beside the locked ones, want %d in all", n, c.want)
			}
			if err := tx.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := reapAll(ctx, s); err != nil {
				t.Fatal(err)
			}
			if n := count(); n > 100 { // of jobs that no worker claims, some are left for the next time
				t.Errorf("%d are left after all", n)
			}
		})
	}
}

// TestReapStepsAreApart checks that a failing step does not stop the others.
func TestReapStepsAreApart(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"blames", "idempotency_keys", "batch_leases"} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			s := openTest(t, Config{})
			ctx := t.Context()
			for range 2 {
				if _, _, err := s.SubmitJob(ctx, store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: []byte(`{}`), ExpiresIn: time.Millisecond}, store.Idempotency{}, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.PutWorkers(ctx, []store.Worker{{ID: "gone", Pool: "p", Silence: 48 * time.Hour}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.db.Pool.Exec(ctx, `ALTER TABLE `+broken+` RENAME TO hidden`); err != nil {
				t.Fatal(err)
			}
			expired := int64(0)
			for deadline := time.Now().Add(30 * time.Second); expired < 2 && time.Now().Before(deadline); {
				st, err := reapAll(ctx, s)
				if err == nil {
					t.Fatal("nothing failed")
				}
				expired += st.JobsExpired
			}
			if ws, err := s.Workers(ctx, 0); expired != 2 || err != nil || len(ws) != 0 {
				t.Errorf("%d jobs expired, %d workers are left, %v", expired, len(ws), err)
			}
		})
	}
}
