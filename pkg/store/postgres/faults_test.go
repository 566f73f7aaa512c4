package postgres

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	check := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	_, err := Open(ctx, Config{DSN: "postgres://host:port/db?password=hunter2"})
	check(err, job.ErrInvalid)
	_, err = Open(ctx, Config{DSN: "postgres://u:hunter2@/db?host=" + t.TempDir()})
	check(err, job.ErrUnavailable)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the password is in the error: %v", err)
	}
	check(Migrate(ctx, "postgres://u@/db?host="+t.TempDir()), job.ErrUnavailable)

	s := openTest(t, Config{})
	_, err = s.Job(ctx, "", "not-an-id")
	check(err, job.ErrNotFound)
	check(s.PutTenant(ctx, store.Tenant{Name: "a\x00b"}), job.ErrInvalid)
	_, err = s.SubmitBatch(ctx, store.NewBatch{ID: job.NewID()}, nil)
	check(err, job.ErrInvalid) // no tenant

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	check(s.Ping(canceled), context.Canceled)
	late, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	check(s.Ping(late), job.ErrUnavailable)
	_, err = s.db.Pool.Exec(ctx, `ALTER TABLE jobs RENAME TO elsewhere`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Job(ctx, "", job.NewID()); err == nil || errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrNotFound) {
		t.Errorf("a broken schema is %v", err)
	}
	s.Close()
	check(s.Ping(ctx), job.ErrUnavailable)
}

// TestDeadline holds a lock that a call needs: the call ends by its own deadline.
func TestDeadline(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{Timeout: 300 * time.Millisecond})
	tx, err := s.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `LOCK TABLE jobs`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Job(t.Context(), "", job.NewID()); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, job.ErrUnavailable)
	}
}

// TestConnectionsKilled runs a batch while all connections are killed repeatedly. Calls fail and are sent
// again; in the end each job has its one record.
func TestConnectionsKilled(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{ApplicationTag: "victim"})
	killer := openTestOn(t, dsnOf(s))
	const n = 300
	d := driver{Store: s, worker: "w"}
	batch := d.submit(t, n)

	var over atomic.Bool
	kills := make(chan int64, 1)
	go func() {
		var killed int64
		tick := time.NewTicker(100 * time.Millisecond) // row 19; a plan of schedule alone takes a good part of it
		defer tick.Stop()
		for !over.Load() {
			tag, err := killer.db.Pool.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name = 'victim' AND datname = current_database()`)
			if err == nil {
				killed += tag.RowsAffected()
			}
			<-tick.C
		}
		kills <- killed
	}()
	failures := d.drive(t, batch, n)
	over.Store(true)
	if k := <-kills; k == 0 || failures == 0 {
		t.Errorf("%d connections killed, %d calls failed: nothing was tested", k, failures)
	}
	d.checkRecords(t, batch, n)
}

// TestServerKilled kills the server in the middle of a batch, before it can write anything more. Earlier
// answers must still hold: results stay, and no lease or generation is issued twice.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, "Postgres")
	ctx := t.Context()
	cfg := dev.PostgresConfig{Dir: filepath.Join(t.TempDir(), "pg")}
	server, err := dev.StartPostgres(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop(context.Background()) })
	if err := Migrate(ctx, server.DSN()); err != nil {
		t.Fatal(err)
	}
	s := openTestOn(t, server.DSN())
	d := driver{Store: s, worker: "w"}
	const n = 400
	batch := d.submit(t, n)
	var told []store.Finish
	var last job.Lease
	gens := map[job.ID]job.Generation{}
	for len(told) < n/2 {
		fs := d.step(t, gens, &last)
		got, err := s.Finish(ctx, fs[:len(fs)/2])
		if err != nil || got[0] != store.Recorded {
			t.Fatal(got, err)
		}
		told = append(told, fs[:len(fs)/2]...)
	}
	if err := syscall.Kill(server.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(ctx); err == nil {
		t.Log("the server answered once more")
	}
	server.Stop(ctx)
	for deadline := time.Now().Add(time.Minute); ; {
		// The dead server's children exit one by one. The server cannot start until the last has exited.
		again, err := dev.StartPostgres(ctx, cfg)
		if err == nil {
			server = again
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for _, f := range told {
		_, err := s.Result(ctx, "t", f.Job)
		for errors.Is(err, job.ErrUnavailable) { // old connections are noticed on use
			_, err = s.Result(ctx, "t", f.Job)
		}
		if err != nil {
			t.Fatalf("a result that was recorded is gone: %v", err)
		}
	}
	if _, err := s.db.Pool.Exec(ctx, `UPDATE jobs SET lease_until = now() - interval '1 second' WHERE state = 'running'`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReapLeases(ctx); err != nil {
		t.Fatal(err)
	}
	d.gens, d.last = gens, last // drive checks that numbers only grow
	d.drive(t, batch, n)
	d.checkRecords(t, batch, n)
}

func openTestOn(t *testing.T, dsn string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// driver is a dispatcher and a worker that repeat each call until it works.
type driver struct {
	*Store
	worker string
	gens   map[job.ID]job.Generation
	last   job.Lease
}

func (d *driver) submit(t *testing.T, n int) job.ID {
	t.Helper()
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: fmt.Appendf(nil, `{"name":"%d"}`, i)}
	}
	id, err := d.SubmitBatch(t.Context(), store.NewBatch{ID: job.NewID(), Tenant: "t"}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// step takes some jobs to running, and checks their numbers.
func (d *driver) step(t *testing.T, gens map[job.ID]job.Generation, last *job.Lease) []store.Finish {
	t.Helper()
	ds, err := d.Schedule(t.Context(), []string{"p"}, 40)
	if err != nil {
		t.Fatal(err)
	}
	var claims []store.Claim
	for _, x := range ds {
		if x.Generation <= gens[x.Job] {
			t.Fatalf("generation %d of %s was issued before", x.Generation, x.Job)
		}
		gens[x.Job] = x.Generation
		claims = append(claims, store.Claim{Ref: x.Ref, Worker: d.worker})
	}
	got, err := d.Claim(t.Context(), time.Minute, claims)
	if err != nil {
		t.Fatal(err)
	}
	var fs []store.Finish
	for _, c := range got {
		if c.Lease <= *last && c.Lease != 0 {
			t.Fatalf("lease %d was issued before", c.Lease)
		}
		fs = append(fs, store.Finish{Worker: d.worker, LeaseRef: store.LeaseRef{Job: c.Job, Lease: c.Lease}, Outcome: job.Succeeded, Result: []byte(`{"message":"ok"}`)})
	}
	for _, c := range got {
		*last = max(*last, c.Lease)
	}
	return fs
}

// drive takes a batch to its end and returns the number of failed calls.
func (d *driver) drive(t *testing.T, batch job.ID, n int64) (failures int) {
	t.Helper()
	unavailable := func(err error) bool {
		if err == nil {
			return false
		}
		if !errors.Is(err, job.ErrUnavailable) {
			t.Fatalf("neither done nor unavailable: %v", err)
		}
		failures++
		return true
	}
	ctx := t.Context()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		b, err := d.Batch(ctx, "t", batch)
		if unavailable(err) {
			continue
		}
		if b.Done() {
			return failures
		}
		ds, err := d.Schedule(ctx, []string{"p"}, 25)
		if unavailable(err) {
			continue
		}
		lost, err := d.Unclaimed(ctx, 0, 25) // of schedules whose response was lost
		if unavailable(err) {
			continue
		}
		var claims []store.Claim
		for _, x := range append(ds, lost...) {
			claims = append(claims, store.Claim{Ref: x.Ref, Worker: d.worker})
		}
		for len(claims) > 0 {
			got, err := d.Claim(ctx, time.Minute, claims)
			if unavailable(err) {
				continue
			}
			d.finishAll(t, got, unavailable)
			break
		}
	}
	t.Fatal("the batch does not end")
	return failures
}

func (d *driver) finishAll(t *testing.T, got []store.Claimed, unavailable func(error) bool) {
	t.Helper()
	var fs []store.Finish
	for _, c := range got {
		if c.Lease == 0 {
			continue
		}
		if g, ok := d.gens[c.Job]; ok && c.Generation <= g || c.Lease <= d.last && d.gens != nil {
			t.Fatalf("generation %d, lease %d of %s were issued before (up to %d, %d)", c.Generation, c.Lease, c.Job, g, d.last)
		}
		fs = append(fs, store.Finish{Worker: d.worker, LeaseRef: store.LeaseRef{Job: c.Job, Lease: c.Lease}, Outcome: job.Succeeded, Result: []byte(`{"message":"ok"}`)})
	}
	for len(fs) > 0 {
		st, err := d.Finish(t.Context(), fs)
		if unavailable(err) {
			continue
		}
		for i := range st {
			if st[i] != store.Recorded {
				t.Fatalf("a current lease's result is %s", st[i])
			}
		}
		return
	}
}

func (d *driver) checkRecords(t *testing.T, batch job.ID, n int64) {
	t.Helper()
	var results, distinct int64
	err := d.db.Pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT seq) FROM results WHERE batch_id = $1 AND seq BETWEEN 1 AND $2`,
		pg.UUID(batch), n).Scan(&results, &distinct)
	if errors.Is(pg.Translate("", err), job.ErrUnavailable) {
		err = d.db.Pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT seq) FROM results WHERE batch_id = $1 AND seq BETWEEN 1 AND $2`,
			pg.UUID(batch), n).Scan(&results, &distinct)
	}
	if err != nil || results != n || distinct != n {
		t.Errorf("%d results, %d numbers, want %d of each (%v)", results, distinct, n, err)
	}
}
