package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// TestOldJobsAddTheirOwnDays checks that the queue looks at earlier days with unfinished jobs, and at no days
// between. Once the job is over, its day is left out.
func TestOldJobsAddTheirOwnDays(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	oldest := withHistory(t, s)
	liveDays := func(want int64) {
		t.Helper()
		if err := s.Maintain(ctx); err != nil {
			t.Fatal(err)
		}
		st, err := s.Stats(ctx)
		if err != nil || st.LiveDays != want {
			t.Errorf("%d live days, %v; want %d", st.LiveDays, err, want)
		}
	}
	liveDays(4)
	var old []job.ID
	for _, d := range []int{1, 10, 11} { // the last two are one stretch
		old = append(old, job.FirstIDAt(oldest.AddDate(0, 0, d).Add(time.Hour)))
	}
	undated := job.FirstIDAt(oldest.AddDate(-2, 0, 0))
	for _, id := range append(old, undated) {
		if _, _, err := s.SubmitJob(ctx, store.NewJob{ID: id, Tenant: "t", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	liveDays(7)
	queued := 0
	for q := (store.JobQuery{JobFilter: store.JobFilter{State: job.Queued}, Limit: 10}); ; {
		page, err := s.BrowseJobs(ctx, "t", q)
		if err != nil {
			t.Fatal(err)
		}
		queued += len(page.Jobs)
		if q.Before = page.Next; q.Before == "" {
			break
		}
	}
	if queued != 4 {
		t.Errorf("%d queued jobs are listed, want 4", queued)
	}
	ds, err := s.Schedule(ctx, []string{"p"}, 10)
	if err != nil || len(ds) != 4 {
		t.Fatalf("scheduled %v, %v", ds, err)
	}
	for i, id := range old {
		if _, err := s.Cancel(ctx, id); err != nil {
			t.Fatal(err)
		}
		liveDays(int64(6 - i))
	}
	// A program of the previous version moves its one bound: all live days stay covered.
	if _, err := s.db.Pool.Exec(ctx, `SELECT assay_live_since(assay_live_since())`); err != nil {
		t.Fatal(err)
	}
	if n := queryStrings(t, s, `SELECT id::text FROM live_jobs WHERE state = 'dispatched'`); len(n) != 1 || n[0] != string(undated) {
		t.Errorf("live after that: %v", n)
	}
	liveDays(4)
}

// TestJobsDoNotWaitForEver checks that a job that no worker takes ends with a reason, whether it is queued,
// in a paused batch or dispatched.
func TestJobsDoNotWaitForEver(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{QueueLife: 240 * time.Hour})
	ctx := t.Context()
	withHistory(t, s)
	old := time.Now().AddDate(0, 0, -12)
	newJob := func(pool string, at time.Time) store.NewJob {
		return store.NewJob{ID: job.FirstIDAt(at), Tenant: "t", Pool: pool, Spec: []byte(`{}`)}
	}
	single, clock := newJob("p", old), newJob("p", old.Add(time.Second))
	batch := store.NewBatch{ID: job.FirstIDAt(old), Tenant: "t"}
	if _, err := s.SubmitBatch(ctx, batch, []store.NewJob{newJob("q", old.Add(2*time.Second)), newJob("q", old.Add(3*time.Second))}); err != nil {
		t.Fatal(err)
	}
	for _, j := range []store.NewJob{single, clock, newJob("d", old.Add(4*time.Second)), newJob("p", time.Now())} {
		if _, _, err := s.SubmitJob(ctx, j, store.Idempotency{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	open := store.NewBatch{ID: job.FirstIDAt(old.Add(5 * time.Second)), Tenant: "t"}
	if _, _, err := s.OpenBatch(ctx, open); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendJobs(ctx, open.ID, []store.NewJob{newJob("p", old.Add(6*time.Second))}); err != nil {
		t.Fatal(err)
	}
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	if ds, err := s.Schedule(ctx, []string{"d"}, 1); err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	if err := s.Pause(ctx, &store.Action{ID: job.NewID(), Action: "pause"}, store.Pausable{Kind: store.PauseBatch, Name: string(batch.ID)}); err != nil {
		t.Fatal(err)
	}
	if st, err := s.Reap(ctx); err != nil || st.JobsExpired != 0 {
		t.Errorf("of jobs that were just submitted, by whatever clock: %+v, %v", st, err)
	}
	for _, sql := range []string{`UPDATE jobs SET created_at = now() - interval '12 days' WHERE id < $1 AND id <> $2`, `UPDATE batches SET created_at = now() - interval '12 days' WHERE id < $1 AND id <> $2`} {
		if _, err := s.db.Pool.Exec(ctx, sql, pg.UUID(job.FirstIDAt(old.Add(time.Hour))), pg.UUID(clock.ID)); err != nil {
			t.Fatal(err)
		}
	}
	st, err := s.Reap(ctx)
	if err != nil || st.JobsExpired != 4 || st.BatchesDropped != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	j, err := s.Job(ctx, "t", single.ID)
	if err != nil || j.Result == nil || j.Result.Outcome != job.Expired || !strings.Contains(j.Result.Message, "longer than 240h0m0s") {
		t.Errorf("got %+v, %v", j, err)
	}
	if b, err := s.Batch(ctx, "t", batch.ID); err != nil || !b.Done() || b.Outcomes[job.Expired] != 2 {
		t.Errorf("the paused batch: %+v, %v", b, err)
	}
	if j, err := s.Job(ctx, "t", clock.ID); err != nil || j.State != job.Queued {
		t.Errorf("a job by a wrong clock: %+v, %v", j, err)
	}
}

// TestDaysWithoutPartitionsAreMade checks that the rows of a day in the default partitions move to their own
// partition in steps, however many they are.
func TestDaysWithoutPartitionsAreMade(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	ahead := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 5)
	const n = 45_000
	prefix := string(job.FirstIDAt(ahead.Add(time.Hour)))[:24]
	id := fmt.Sprintf(`('%s' || lpad(to_hex(n), 12, '0'))::uuid`, prefix)
	for _, sql := range []string{
		`INSERT INTO tenants (name) VALUES ('t')`,
		`INSERT INTO jobs (id, tenant_id, pool) SELECT ` + id + `, 1, 'p' FROM generate_series(1, ` + fmt.Sprint(n) + `) AS g (n)`,
		`INSERT INTO specs (id, spec) SELECT ` + id + `, '{}' FROM generate_series(1, ` + fmt.Sprint(n) + `) AS g (n)`,
	} {
		if _, err := s.db.Pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int{"jobs_default": 0, "specs_default": 0, "jobs" + ahead.Format("_20060102"): n, "specs" + ahead.Format("_20060102"): n} {
		if got := queryStrings(t, s, `SELECT count(*)::text FROM `+table); got[0] != fmt.Sprint(want) {
			t.Errorf("%s rows in %s, want %d", got[0], table, want)
		}
	}
	last := job.FirstIDAt(ahead.AddDate(0, 0, 1).Add(-time.Millisecond))
	if _, _, err := s.SubmitJob(ctx, store.NewJob{ID: last, Tenant: "t", Pool: "q", Spec: []byte(`{}`)}, store.Idempotency{}, 0); err != nil {
		t.Fatal(err)
	}
	if got := queryStrings(t, s, `SELECT tableoid::regclass::text FROM jobs WHERE pool = 'q'`); got[0] != "jobs"+ahead.Format("_20060102") {
		t.Errorf("the end of the day is in %s", got[0])
	}
	if ds, err := s.Schedule(ctx, []string{"q"}, 10); err != nil || len(ds) != 1 {
		t.Errorf("scheduled %v, %v", ds, err)
	}
}

// TestMaintainFailsBesideRowsThatCannotMove checks that rows without a partition are an error, so that the
// upkeep does not count as done.
func TestMaintainFailsBesideRowsThatCannotMove(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	day := time.Now().UTC().AddDate(0, 0, 5)
	if _, _, err := s.SubmitJob(ctx, store.NewJob{ID: job.FirstIDAt(day), Tenant: "t", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Pool.Exec(ctx, `CREATE VIEW jobs`+day.Format("_20060102")+` AS SELECT 1`); err != nil { // it has the partition's name
		t.Fatal(err)
	}
	if err := s.Maintain(ctx); err == nil {
		t.Error("Maintain reports success")
	}
}

// TestCancelOfManyIsBounded checks that a cancel by label reads the queue in pages, past jobs with other
// labels.
func TestCancelOfManyIsBounded(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	const n = 24_000
	var jobs []store.NewJob
	for i := range n {
		jobs = append(jobs, store.NewJob{ID: job.NewID(), Tenant: "t", Pool: fmt.Sprint("p", i%2), Priority: i % 3, Spec: fmt.Appendf(nil, `{"labels":{"half":"%d"}}`, i/(n/2))})
	}
	if _, err := s.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: "t"}, jobs); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Prioritize(ctx, "t", store.PriorityQuery{Labels: map[string]string{"half": "1"}, Priority: 1}); err != nil || n != 8000 {
		t.Errorf("%d jobs have another priority, %v", n, err)
	}
	q := store.CancelQuery{Labels: map[string]string{"half": "1"}, DryRun: true}
	if c, err := s.CancelMany(ctx, "t", q); err != nil || c.Ended != n/2 || c.More {
		t.Errorf("in a dry run: %+v, %v", c, err)
	}
	q.DryRun = false
	ended := int64(0)
	for more := true; more; {
		c, err := s.CancelMany(ctx, "t", q)
		if err != nil || c.Ended == 0 {
			t.Fatalf("%+v, %v", c, err)
		}
		ended, more = ended+c.Ended, c.More
	}
	if left := queryStrings(t, s, `SELECT count(*)::text FROM jobs WHERE state = 'queued'`); ended != n/2 || left[0] != fmt.Sprint(n/2) {
		t.Errorf("%d jobs were canceled, %s are left", ended, left[0])
	}
}

// TestInputsOfManyJobs checks that the inputs of a long queue are read in pages.
func TestInputsOfManyJobs(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	const n = 11_000 // more than two pages
	var jobs []store.NewJob
	for i := range n {
		jobs = append(jobs, store.NewJob{ID: job.NewID(), Tenant: "t", Pool: fmt.Sprint("p", i%3), Spec: fmt.Appendf(nil, `{"blob":"sha256:%064x"}`, i%(n/2))})
	}
	if _, err := s.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: "t"}, jobs); err != nil {
		t.Fatal(err)
	}
	if ds, err := s.Schedule(ctx, []string{"p1"}, 10); err != nil || len(ds) != 10 {
		t.Fatal(ds, err)
	}
	if got, err := s.Inputs(ctx, time.Now().Add(time.Hour)); err != nil || len(got) != n/2 {
		t.Errorf("%d inputs, %v; want %d", len(got), err, n/2)
	}
	if got, err := s.Inputs(ctx, time.Now().Add(-time.Hour)); err != nil || len(got) != 0 {
		t.Errorf("%d inputs of jobs of an earlier time, %v", len(got), err)
	}
}
