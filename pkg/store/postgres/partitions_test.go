package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// TestPartitions checks that today's rows have a partition of their day. Rows of other days are stored, too,
// and their partition can be made later.
func TestPartitions(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	submit := func(id job.ID) {
		t.Helper()
		j := store.NewJob{ID: id, Tenant: "t", Pool: "p", Spec: []byte(`{}`)}
		if _, _, err := s.SubmitJob(ctx, j, store.Idempotency{}, 0); err != nil {
			t.Fatal(err)
		}
		if j, err := s.Job(ctx, "t", id); err != nil || j.State != job.Queued {
			t.Fatalf("job %+v, %v", j, err)
		}
	}
	table := func(id job.ID) (name string) {
		t.Helper()
		if err := s.db.Pool.QueryRow(ctx, `SELECT tableoid::regclass::text FROM jobs WHERE id = $1`, pg.UUID(id)).Scan(&name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	today := job.NewID()
	submit(today)
	if got, want := table(today), "jobs_"+today.Time().UTC().Format("20060102"); got != want {
		t.Errorf("a job of today is in %s, want %s", got, want)
	}
	day := time.Date(2031, 5, 17, 0, 0, 0, 0, time.UTC)
	far, next := job.FirstIDAt(day.Add(time.Hour)), job.FirstIDAt(day.AddDate(0, 0, 1))
	submit(far)
	if got := table(far); got != "jobs_default" {
		t.Errorf("a job of a day without partition is in %s", got)
	}
	for range 2 {
		if _, err := s.db.Pool.Exec(ctx, `SELECT assay_partitions('2031-05-17', 2)`); err != nil {
			t.Fatal(err)
		}
		if err := s.Maintain(ctx); err != nil {
			t.Fatal(err)
		}
	}
	submit(next)
	if got := table(far) + " " + table(next); got != "jobs_20310517 jobs_20310518" {
		t.Errorf("after their partitions were made the jobs are in %s", got)
	}
	if n := queryStrings(t, s, `SELECT spec FROM specs_20310517`); len(n) != 1 {
		t.Errorf("%d specs moved with the job", len(n))
	}
	// One window has the whole queue, from all partitions.
	ds, err := s.Schedule(ctx, []string{"p"}, 10)
	if err != nil || len(ds) != 3 {
		t.Errorf("scheduled %v, %v", ds, err)
	}
	if days := queryStrings(t, s, `SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'results'::regclass`); !strings.Contains(strings.Join(days, " "), "results_2031051") {
		t.Errorf("results have the partitions %v", days)
	}
	// Documents of old and new partitions are compressed by lz4, where the server supports it.
	other := queryStrings(t, s, `SELECT a.attrelid::regclass || '.' || a.attname FROM pg_inherits p JOIN pg_attribute a ON a.attrelid = p.inhrelid
		WHERE (p.inhparent = 'results'::regclass AND a.attname = 'body' OR p.inhparent = 'specs'::regclass AND a.attname = 'spec')
		AND (a.attcompression = 'l') <> (SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression')`)
	if len(other) > 0 {
		t.Errorf("compressed otherwise: %v", other)
	}
}

// TestMaintainBesideWriters checks that a long-running writer and the making of partitions do not block each
// other.
func TestMaintainBesideWriters(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	j := store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: []byte(`{}`)}
	if _, _, err := s.SubmitJob(ctx, j, store.Idempotency{}, 0); err != nil {
		t.Fatal(err)
	}
	tx, err := s.db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, `UPDATE jobs_`+j.ID.Time().UTC().Format("20060102")+` SET priority = 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Pool.Exec(ctx, `SET lock_timeout = '2s'; SELECT assay_partitions('2031-05-17', 1)`); err != nil {
		t.Errorf("waited for a writer: %v", err)
	}
}
