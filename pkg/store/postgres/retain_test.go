package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/schema"
)

// keptFor is the age of the tests' history.
const keptFor = 30 * 24 * time.Hour

// past is a store with partitions for two days of 40 days ago.
type past struct {
	*testing.T
	*Store
	day time.Time
}

func newPast(t *testing.T) *past {
	t.Helper()
	p := &past{t, openTest(t, Config{}), time.Now().UTC().AddDate(0, 0, -40).Truncate(24 * time.Hour)}
	p.exec(`SELECT assay_partitions($1::date, 2)`, p.day)
	return p
}

func (p *past) exec(sql string, args ...any) {
	p.Helper()
	if _, err := p.db.Pool.Exec(p.Context(), sql, args...); err != nil {
		p.Fatal(err)
	}
}

func (p *past) job(id job.ID) store.NewJob {
	return store.NewJob{ID: id, Tenant: "t", Pool: "p", Spec: []byte(`{}`)}
}

// single submits jobs without a batch.
func (p *past) single(ids ...job.ID) {
	p.Helper()
	for _, id := range ids {
		if _, _, err := p.SubmitJob(p.Context(), p.job(id), store.Idempotency{}, 0); err != nil {
			p.Fatal(err)
		}
	}
}

// batch submits jobs as a batch that began with the first of them and was sealed on the day of the last.
func (p *past) batch(callback *job.Callback, ids ...job.ID) job.ID {
	p.Helper()
	var jobs []store.NewJob
	for _, id := range ids {
		jobs = append(jobs, p.job(id))
	}
	id := job.FirstIDAt(ids[0].Time())
	if _, err := p.SubmitBatch(p.Context(), store.NewBatch{ID: id, Tenant: "t", Callback: callback}, jobs); err != nil {
		p.Fatal(err)
	}
	p.exec(`UPDATE batches SET created_at = $2, appended_at = $3 WHERE id = $1`, pg.UUID(id), ids[0].Time(), ids[len(ids)-1].Time())
	return id
}

// over ends a job some days ago.
func (p *past) over(id job.ID, days int) {
	p.Helper()
	if _, err := p.Cancel(p.Context(), id); err != nil {
		p.Fatal(err)
	}
	p.exec(`UPDATE jobs SET ended_at = now() - $2 * interval '1 day' WHERE id = $1`, pg.UUID(id), days)
}

// batchOver ends a batch some days ago.
func (p *past) batchOver(id job.ID, days int) {
	p.Helper()
	if _, err := p.CancelBatch(p.Context(), id); err != nil {
		p.Fatal(err)
	}
	p.exec(`UPDATE jobs SET ended_at = now() - $2 * interval '1 day' WHERE batch_id = $1`, pg.UUID(id), days)
	p.exec(`UPDATE batch_counts SET ended_at = now() - $2 * interval '1 day' WHERE batch_id = $1`, pg.UUID(id), days)
}

// forget checks the number of days and batches that go.
func (p *past) forget(days, batches int) {
	p.Helper()
	p.Tables = schema.New(p.db) // tests date rows back, so a judged day may change
	f, err := p.Forget(p.Context(), keptFor)
	if err != nil || f.Days != days || f.Batches != batches {
		p.Fatalf("forgot %+v, %v; want %d days and %d batches", f, err, days, batches)
	}
}

// TestForget drops whole days that have been over for long enough, and nothing else.
func TestForget(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	over, waits, today := job.FirstIDAt(p.day.Add(time.Hour)), job.FirstIDAt(p.day.AddDate(0, 0, 1)), job.NewID()
	p.single(over, waits, today)
	unknown := job.FirstIDAt(p.day.Add(2 * time.Hour))
	if _, err := p.Job(t.Context(), "t", unknown); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("an old id of a fleet that forgot nothing: %v", err)
	}
	p.over(over, 1)
	p.forget(0, 0) // it waited for long, and ended yesterday
	p.over(today, 0)
	p.exec(`UPDATE jobs SET ended_at = now() - interval '31 days' WHERE id = $1`, pg.UUID(over))
	p.forget(1, 0)
	for id, want := range map[job.ID]error{over: job.ErrGone, unknown: job.ErrGone, waits: nil, today: nil, job.NewID(): job.ErrNotFound} {
		if _, err := p.Job(t.Context(), "t", id); !errors.Is(err, want) {
			t.Errorf("job of %v: %v, want %v", id.Time(), err, want)
		}
	}
	if _, err := p.Result(t.Context(), "t", over); !errors.Is(err, job.ErrGone) {
		t.Errorf("its result: %v", err)
	}
	if _, err := p.Result(t.Context(), "t", waits); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("the result of a job that waits: %v", err)
	}
	p.over(waits, 31)
	p.forget(1, 0)
	p.forget(0, 0)
	if err := p.Maintain(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestForgetGoesOn checks that the remains of a day after an interrupted Forget go with the next.
func TestForgetGoesOn(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.exec(`DROP TABLE jobs` + p.day.Format("_20060102") + `, specs` + p.day.Format("_20060102"))
	p.forget(2, 0)
	if left := queryStrings(t, p.Store, `SELECT relname::text FROM pg_class WHERE relname ~ '`+p.day.Format("_20060102$")+`'`); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestForgetBatches checks that a batch stays complete until it has been over for long enough and its
// callback is done. Then all of it goes.
func TestForgetBatches(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	ctx := t.Context()
	first, second := job.FirstIDAt(p.day.Add(23*time.Hour)), job.FirstIDAt(p.day.Add(25*time.Hour))
	id := p.batch(&job.Callback{URL: "https://example.org/"}, first, second)
	p.over(first, 39)
	p.forget(0, 0) // its second half waits
	p.batchOver(id, 1)
	p.over(first, 39)
	p.forget(0, 0) // it is over since yesterday
	p.batchOver(id, 31)
	p.forget(0, 0) // its callback is still tried
	if got, _, err := p.Results(ctx, "t", id, 0, 10); err != nil || len(got) != 2 {
		t.Fatalf("%d results are left, %v", len(got), err)
	}
	p.exec(`UPDATE callbacks SET given_up_at = now()`)
	p.forget(2, 1)
	if _, err := p.Batch(ctx, "t", id); !errors.Is(err, job.ErrGone) {
		t.Errorf("the batch: %v", err)
	}
	if _, err := p.BatchDone(ctx, "t", id); !errors.Is(err, job.ErrGone) {
		t.Errorf("whether it is done: %v", err)
	}
	if _, err := p.RetryBatch(ctx, id, store.NewBatch{ID: job.NewID(), Tenant: "t"}); !errors.Is(err, job.ErrGone) {
		t.Errorf("its retry: %v", err)
	}
	for _, table := range []string{"batches", "batch_counts", "callbacks"} {
		if n := queryStrings(t, p.Store, `SELECT 'row' FROM `+table); len(n) > 0 {
			t.Errorf("%d rows left in %s", len(n), table)
		}
	}
}

// TestForgetKeepsLiveBatches checks live batches for any days in their jobs' ids: a dispatcher's clock may
// have been ahead over midnight.
func TestForgetKeepsLiveBatches(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	ahead := job.FirstIDAt(p.day.AddDate(0, 0, 1))
	id := p.batch(nil, ahead)
	p.exec(`UPDATE batches SET created_at = $1, appended_at = $1`, p.day.Add(23*time.Hour)) // by the server's clock
	p.forget(0, 0)
	if ds, err := p.Schedule(t.Context(), []string{"p"}, 10); err != nil || len(ds) != 1 {
		t.Errorf("of the batch, %v is scheduled, %v", ds, err)
	}
	p.batchOver(id, 31)
	p.forget(2, 1)
}

// TestForgetUndated checks that rows of the default partition are deleted, too.
func TestForgetUndated(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	lost, waits := job.FirstIDAt(p.day.AddDate(0, 0, 5)), job.FirstIDAt(p.day.AddDate(0, 0, 6))
	p.single(lost, waits)
	p.over(lost, 31)
	p.forget(2, 0)
	if _, err := p.Job(t.Context(), "t", lost); !errors.Is(err, job.ErrGone) {
		t.Errorf("got %v", err)
	}
	if _, err := p.Job(t.Context(), "t", waits); err != nil {
		t.Error(err)
	}
	for _, table := range []string{"specs", "results"} {
		if n := queryStrings(t, p.Store, `SELECT 'row' FROM `+table+` WHERE id = '`+string(lost)+`'`); len(n) > 0 {
			t.Errorf("left in %s", table)
		}
	}
}

func TestForgetSessions(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	ctx := t.Context()
	old, live := job.FirstIDAt(p.day), job.FirstIDAt(p.day.Add(time.Hour))
	for _, id := range []job.ID{old, live} {
		if err := p.PutSession(ctx, "t", job.Session{ID: id, Worker: "w"}, 0); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := p.PutExecute(ctx, store.Executed{Session: id, ID: job.NewID(), Code: "1", Result: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.exec(`UPDATE sessions SET state = 'ended', outcome = 'succeeded', ended_at = now() - interval '31 days' WHERE id = $1`, pg.UUID(old))
	if f, err := p.Forget(ctx, keptFor); err != nil || f.Sessions != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	if _, err := p.Session(ctx, "t", old); !errors.Is(err, job.ErrGone) {
		t.Errorf("got %v", err)
	}
	if _, err := p.Session(ctx, "t", live); err != nil {
		t.Error(err)
	}
	if n := queryStrings(t, p.Store, `SELECT 'row' FROM executes`); len(n) != 3 {
		t.Errorf("%d executes are left", len(n))
	}
}

// TestHistoryBesideADump checks that a long backup, new partitions and dropped days do not block writers.
// Both are done when the backup ends.
func TestHistoryBesideADump(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	ctx := t.Context()
	soon := time.Now().UTC().AddDate(0, 0, 2)
	p.exec(`DROP TABLE jobs` + soon.Format("_20060102"))
	watched := p.watchLocks() // before the dump, so that no short transaction counts as lasting

	dump, err := p.db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dump.Rollback(context.WithoutCancel(ctx)) }()
	for _, table := range []string{"jobs_default", "jobs", "jobs" + p.day.Format("_20060102")} {
		if _, err := dump.Exec(ctx, `LOCK TABLE ONLY `+table+` IN ACCESS SHARE MODE`); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // in the first seconds it might be a short one
		if err := p.Maintain(ctx); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("Maintain beside a dump: %v", err)
		}
		if _, err := p.Forget(ctx, keptFor); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("Forget beside a dump: %v", err)
		}
	}
	if err := dump.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	p.inTime(func() error { return p.Maintain(ctx) })
	p.forgetInTime(2)
	watched()
	if n := queryStrings(t, p.Store, `SELECT relname::text FROM pg_class WHERE relname = 'jobs`+soon.Format("_20060102")+`'`); len(n) != 1 {
		t.Error("the day was not made after the dump")
	}
}

// inTime retries as the fleet's upkeep does: a missed moment is no failure.
func (p *past) inTime(f func() error) {
	p.Helper()
	deadline := time.Now().Add(time.Minute)
	err := f()
	for errors.Is(err, job.ErrUnavailable) && time.Now().Before(deadline) {
		err = f()
	}
	if err != nil {
		p.Error(err)
	}
}

// forgetInTime checks the number of days that go beside writers.
func (p *past) forgetInTime(days int) {
	p.Helper()
	p.Tables = schema.New(p.db) // tests date rows back, so a judged day may change
	gone := 0
	p.inTime(func() error {
		f, err := p.Forget(p.Context(), keptFor)
		gone += f.Days
		return err
	})
	if gone != days {
		p.Errorf("%d days went, want %d", gone, days)
	}
}

// TestForgetBesideWriters checks that a working fleet and the dropping of old days do not stop each other.
func TestForgetBesideWriters(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	watched := p.watchLocks()
	p.forgetInTime(2)
	watched()
}

// watchLocks submits, schedules and claims until stop is called, here and in a second database without
// upkeep. A call here may take only somewhat longer than there, however busy the machine is.
func (p *past) watchLocks() (stop func()) {
	const most = time.Second
	own, err := Open(p.Context(), Config{DSN: dsnOf(p.Store)})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(own.Close)
	here, beside := p.writers(own), p.writers(openTest(p.T, Config{}))
	return func() {
		slowest, usual := here(), beside()
		if slowest > most+2*usual {
			p.Errorf("upkeep was in the way: a writer took %v, and %v at the most where there was none", slowest, usual)
		}
	}
}

// writers work in a store until stop is called, which returns the longest time of a round.
func (p *past) writers(s *Store) (stop func() (slowest time.Duration)) {
	var n, worst atomic.Int64
	ctx, cancel := context.WithCancel(p.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				if err := work(ctx, s, fmt.Sprint("w", i)); err != nil && ctx.Err() == nil {
					p.Errorf("stopped by upkeep: %v", err)
					return
				}
				for took, w := int64(time.Since(began)), worst.Load(); took > w && !worst.CompareAndSwap(w, took); w = worst.Load() {
				}
				n.Add(1)
			}
		})
	}
	more := func(than int64) {
		for deadline := time.Now().Add(time.Minute); n.Load() <= than && !p.Failed(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				p.Error("no work is done any more")
			}
		}
	}
	more(0)
	return func() time.Duration {
		more(n.Load() + 3)
		cancel()
		wg.Wait()
		return time.Duration(worst.Load())
	}
}

// work brings a job from submit to claimed.
func work(ctx context.Context, s *Store, worker string) error {
	j := store.NewJob{ID: job.NewID(), Tenant: "t", Pool: worker, Spec: []byte(`{}`)}
	if _, _, err := s.SubmitJob(ctx, j, store.Idempotency{}, 0); err != nil {
		return err
	}
	ds, err := s.Schedule(ctx, []string{worker}, 100)
	if err != nil {
		return err
	}
	for _, d := range ds {
		if _, err := s.Claim(ctx, time.Minute, []store.Claim{{Ref: d.Ref, Worker: worker}}); err != nil {
			return err
		}
	}
	return nil
}
