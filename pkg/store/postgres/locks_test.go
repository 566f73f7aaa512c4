package postgres

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

var historyDays = flag.Int("history-days", 45, "days of history in tests of its locks and of old jobs; 735 for two years, which take a minute or two")

// mostLocks is the number of relations that one statement about history may lock, and mostLive that of a
// statement on the live views. These have six days in the test, and such a statement locks several tables of
// each with all their indexes.
const (
	mostLocks = 130
	mostLive  = 250
)

// withHistory makes partitions of past days, up to yesterday.
func withHistory(t testing.TB, s *Store) (oldest time.Time) {
	t.Helper()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	oldest = today.AddDate(0, 0, -*historyDays)
	for day := oldest; day.Before(today); day = day.AddDate(0, 0, 10) {
		if _, err := s.db.Pool.Exec(t.Context(), `SELECT assay_partitions($1::date, $2)`, day, min(10, int(today.Sub(day).Hours()/24))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return oldest
}

// statements collects the statements that a store sends to the server.
type statements struct {
	mu   sync.Mutex
	sent map[string][]any
}

func (c *statements) note(sql string, args []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil {
		c.sent = map[string][]any{}
	}
	c.sent[sql] = args
}

// TraceQueryStart implements pgx.QueryTracer.
func (c *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	c.note(d.SQL, d.Args)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (c *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (c *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (c *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	c.note(d.SQL, d.Args)
}

// TraceBatchEnd implements pgx.BatchTracer.
func (c *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// locks returns the number of relations that a statement locks when executed. It returns 0 if the statement
// cannot be executed alone.
func locks(t *testing.T, s *Store, sql string, args []any) (n int) {
	t.Helper()
	tx, err := s.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	rows, err := tx.Query(t.Context(), sql, args...)
	if err != nil {
		return 0
	}
	rows.Close()
	if rows.Err() != nil {
		return 0
	}
	if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestStatementsLockFewDays checks that clients cannot cause a statement that locks more than some days,
// regardless of the retention. A server has 6,400 locks by default for all its sessions, and the queue stops
// without locks.
func TestStatementsLockFewDays(t *testing.T) {
	t.Parallel()
	sent := &statements{}
	s := openTest(t, Config{Tracer: sent})
	oldest := withHistory(t, s)
	sent.sent = nil
	useAll(t, s, oldest)
	counter, err := Open(t.Context(), Config{DSN: dsnOf(s)})
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	ran := 0
	for sql, args := range sent.sent {
		if !regexp.MustCompile(`^\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b`).MatchString(sql) {
			continue
		}
		n := locks(t, counter, sql, args)
		if n > 0 {
			ran++
		}
		most := mostLocks
		if strings.Contains(sql, "live_") {
			most = mostLive
		}
		if n > most {
			t.Errorf("%d locks: %.300s", n, sql)
		}
	}
	if ran < 60 {
		t.Errorf("only %d of %d statements were executed", ran, len(sent.sent))
	}
}

// useAll makes the calls of clients, workers and the sweeper, about jobs of today and of a past day.
func useAll(t *testing.T, s *Store, oldest time.Time) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	at := oldest.Add(time.Hour)
	next := func() job.ID { at = at.Add(time.Millisecond); return job.FirstIDAt(at) }
	for _, id := range []func() job.ID{next, job.NewID} {
		var jobs []store.NewJob
		for range 6 {
			jobs = append(jobs, store.NewJob{ID: id(), Tenant: "t", Pool: "p", Spec: []byte(`{"files":{"a":{"blob":"sha256:` + strings.Repeat("a", 64) + `"}}}`), CacheKey: []byte("k"), MaxAttempts: 2, RetryOn: []job.Outcome{job.Failed}})
		}
		batch := id()
		_, err := s.SubmitBatch(ctx, store.NewBatch{ID: batch, Tenant: "t", Lease: time.Hour}, jobs)
		must(err)
		must(s.Maintain(ctx))
		_, _, err = s.SubmitJob(ctx, store.NewJob{ID: id(), Tenant: "t", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{Key: string(id()), Hash: "h"}, 10)
		must(err)
		_, err = s.Prioritize(ctx, "t", store.PriorityQuery{Batch: batch, Priority: 3})
		must(err)
		ds, err := s.Schedule(ctx, []string{"p"}, 5)
		must(err)
		var claims []store.Claim
		var refs []store.Ref
		for _, d := range ds {
			claims, refs = append(claims, store.Claim{Ref: d.Ref, Worker: "w"}), append(refs, d.Ref)
		}
		repeats, err := s.Repeats(ctx, refs)
		must(err)
		_, err = s.Answer(ctx, repeats)
		must(err)
		won, err := s.Claim(ctx, time.Minute, claims)
		must(err)
		var finishes []store.Finish
		var leases []store.LeaseRef
		for _, c := range won {
			if c.Lease == 0 {
				continue
			}
			ref := store.LeaseRef{Job: c.Job, Lease: c.Lease}
			leases = append(leases, ref)
			_, _, err := s.Heartbeat(ctx, time.Minute, []store.Held{{LeaseRef: ref, Worker: "w"}})
			must(err)
			finishes = append(finishes, store.Finish{LeaseRef: ref, BatchID: c.BatchID, Worker: "w", Outcome: job.Succeeded, Result: []byte(`{"outcome":"succeeded"}`)})
		}
		for range 2 { // it is read back
			_, err = s.Finish(ctx, finishes)
			must(err)
		}
		_, err = s.Orphans(ctx, leases)
		must(err)
		_, err = s.Inputs(ctx, time.Now())
		must(err)
		readAll(t, s, batch, jobs[0].ID)
		_, err = s.CancelMany(ctx, "t", store.CancelQuery{Batch: batch})
		must(err)
		_, err = s.CancelBatch(ctx, batch)
		must(err)
		_, err = s.Cancel(ctx, jobs[0].ID)
		must(err)
		_, err = s.Verify(ctx, store.VerifyQuery{Batch: batch})
		must(err)
		must(s.Repair(ctx, &store.Action{ID: job.NewID(), Actor: "a", Action: "repair", Subject: "s"}, batch))
		_, err = s.Reap(ctx)
		must(err)
		_, err = s.RetryBatch(ctx, batch, store.NewBatch{ID: id(), Tenant: "t"})
		must(err)
		must(s.EraseJob(ctx, nil, "t", jobs[0].ID))
		ended, err := s.ErasableJobs(ctx, "t", batch, 3)
		must(err)
		var erased []job.ID
		for _, e := range ended {
			erased = append(erased, e.Job)
		}
		must(s.EraseJobs(ctx, "t", batch, erased))
	}
	_, err := s.Forget(ctx, 5*365*24*time.Hour)
	must(err)
}

// readAll makes the reading calls.
func readAll(t *testing.T, s *Store, batch, id job.ID) {
	ctx := t.Context()
	all := store.JobFilter{Labels: map[string]string{"a": "b"}, Text: "x", Image: "i", Failure: job.TimedOut}
	for _, q := range []store.JobQuery{{}, {JobFilter: store.JobFilter{Batch: batch}}, {JobFilter: all}, {JobFilter: store.JobFilter{State: job.Queued}}, {JobFilter: store.JobFilter{State: job.Running}},
		{JobFilter: store.JobFilter{Since: time.Now().AddDate(-3, 0, 0)}}} {
		q.Limit = 10
		for pages := 0; pages < 100; pages++ {
			page, err := s.BrowseJobs(ctx, "t", q)
			if err != nil {
				t.Error(err)
			}
			if q.Before = page.Next; q.Before == "" {
				break
			}
		}
	}
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	_, err := s.Job(ctx, "t", id)
	note(err)
	_, _ = s.Job(ctx, "t", "00000000-0000-7000-8000-000000000000")
	_, _ = s.Result(ctx, "t", "ffffffff-ffff-7fff-bfff-ffffffffffff")
	_, _ = s.Job(ctx, "t", job.NewID())
	_, _ = s.Result(ctx, "t", id)
	_, _, err = s.Results(ctx, "t", batch, 0, 10)
	note(err)
	_, _, _, err = s.ResultsOf(ctx, "t", batch, job.Succeeded, 0, 10)
	note(err)
	_, err = s.Batch(ctx, "t", batch)
	note(err)
	_, err = s.BatchMap(ctx, "t", batch, "", 100)
	note(err)
	_, err = s.BatchSummary(ctx, "t", batch)
	note(err)
	_, err = s.CompareBatches(ctx, "t", batch, batch, 0, 10)
	note(err)
	_, err = s.BrowseBatches(ctx, "t", store.BatchQuery{Limit: 10})
	note(err)
	_, err = s.Stats(ctx)
	note(err)
	_, err = s.Queue(ctx)
	note(err)
	_, _, err = s.Waiting(ctx, "t")
	note(err)
	_, _, err = s.Waiting(ctx, "")
	note(err)
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestListsOfManyDispatchers checks that six dispatchers that list and erase at once leave room in the
// server's lock table.
func TestListsOfManyDispatchers(t *testing.T) {
	t.Parallel()
	first := openTest(t, Config{})
	oldest := withHistory(t, first)
	ctx := t.Context()
	var wg sync.WaitGroup
	for d := range 6 {
		s, err := Open(ctx, Config{DSN: dsnOf(first)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for r := range 2 {
			wg.Go(func() {
				for i := range 10 {
					id := job.FirstIDAt(oldest.Add(time.Duration((d*100+r*50+i)*7) * time.Minute))
					if err := listAndErase(ctx, s, id); err != nil {
						t.Errorf("dispatcher %d: %v", d, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

func listAndErase(ctx context.Context, s *Store, id job.ID) error {
	if _, _, err := s.SubmitJob(ctx, store.NewJob{ID: id, Tenant: "t", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{}, 0); err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	if _, err := s.db.Pool.Exec(ctx, `UPDATE jobs SET state = 'finished', outcome = 'failed', ended_at = now() WHERE id = $1 AND `+pg.OnDay("id", id), pg.UUID(id)); err != nil {
		return err
	}
	if _, err := s.BrowseJobs(ctx, "t", store.JobQuery{Limit: 100}); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if err := s.EraseJob(ctx, nil, "t", id); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return nil
}

// BenchmarkOneOldJob measures Postgres' cost of a single job beside a job that has waited for long, in µs of
// its processes' CPU time.
func BenchmarkOneOldJob(b *testing.B) {
	for _, old := range []int{0, 1, 30} {
		b.Run(fmt.Sprintf("old=%d", old), func(b *testing.B) {
			s := openTest(b, Config{MaxConns: 2})
			oldest := withHistory(b, s)
			for i := range old {
				id := job.FirstIDAt(oldest.AddDate(0, 0, i).Add(time.Hour))
				if _, _, err := s.SubmitJob(b.Context(), store.NewJob{ID: id, Tenant: "forgetful", Pool: "gpu", Spec: []byte(`{}`)}, store.Idempotency{}, 0); err != nil {
					b.Fatal(err)
				}
			}
			if err := s.Maintain(b.Context()); err != nil {
				b.Fatal(err)
			}
			single := func() {
				id := job.NewID()
				j := store.NewJob{ID: id, Tenant: "t", Pool: "p", Spec: []byte(`{}`), Worker: "w", LeaseTTL: time.Minute}
				_, d, err := s.SubmitJob(b.Context(), j, store.Idempotency{}, 10)
				if err != nil || d == nil {
					b.Fatalf("%+v, %v", d, err)
				}
				got, err := s.Finish(b.Context(), []store.Finish{{LeaseRef: store.LeaseRef{Job: id, Lease: d.Lease}, Worker: "w", Outcome: job.Succeeded, Result: []byte(`{"outcome":"succeeded"}`)}})
				if err != nil || got[0] != store.Recorded {
					b.Fatal(got, err)
				}
			}
			for range 200 {
				single()
			}
			before := backendCPU(b, s)
			b.ResetTimer()
			for range b.N {
				single()
			}
			b.StopTimer()
			b.ReportMetric(float64((backendCPU(b, s)-before).Microseconds())/float64(b.N), "postgres-µs/op")
		})
	}
}

// backendCPU returns the CPU time so far of the server's live processes for a store.
func backendCPU(b *testing.B, s *Store) (total time.Duration) {
	b.Helper()
	for _, pid := range strings.Fields(backendPIDs(b, s)) {
		raw, err := os.ReadFile("/proc/" + pid + "/schedstat")
		if err != nil {
			b.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		total += time.Duration(ns)
	}
	return total
}

func backendPIDs(b *testing.B, s *Store) (pids string) {
	b.Helper()
	err := s.db.Pool.QueryRow(b.Context(), `SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'`).Scan(&pids)
	if err != nil {
		b.Fatal(err)
	}
	return pids
}
