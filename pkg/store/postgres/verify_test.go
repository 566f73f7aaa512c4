package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// TestRepair checks that wrong counters are found and corrected, and that nothing is repaired where rows are
// missing.
func TestRepair(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	var jobs []store.NewJob
	for range 3 {
		jobs = append(jobs, store.NewJob{ID: job.NewID(), Tenant: "acme", Pool: "default", Spec: []byte(`{"program":{"python":{"code":"1"}}}`)})
	}
	batch, err := s.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: "acme"}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	ds, err := s.Schedule(ctx, []string{"default"}, 2)
	if err != nil || len(ds) != 2 {
		t.Fatal(ds, err)
	}
	for _, d := range ds {
		c, err := s.Claim(ctx, time.Minute, []store.Claim{{Ref: d.Ref, Worker: "w"}})
		if err != nil {
			t.Fatal(err)
		}
		f := store.Finish{Worker: "w", LeaseRef: store.LeaseRef{Job: d.Job, Lease: c[0].Lease}, Outcome: job.Succeeded, Result: []byte(`{}`)}
		if _, err := s.Finish(ctx, []store.Finish{f}); err != nil {
			t.Fatal(err)
		}
	}
	spoil := func(sql string) {
		t.Helper()
		if tag, err := s.db.Pool.Exec(ctx, sql, pg.UUID(batch)); err != nil || tag.RowsAffected() == 0 {
			t.Fatal(tag, err)
		}
	}
	look := func() store.Verified {
		t.Helper()
		v, err := s.Verify(ctx, store.VerifyQuery{Batch: batch})
		if err != nil || len(v) != 1 {
			t.Fatal(v, err)
		}
		return v[0]
	}
	repair := func() (*store.Action, error) {
		a := &store.Action{ID: job.NewID(), Actor: "ops", Action: "repair", Subject: string(batch)}
		return a, s.Repair(ctx, a, batch)
	}
	if v := look(); len(v.Problems) != 0 {
		t.Fatalf("before: %+v", v)
	}
	for what, sql := range map[string]string{
		"one too few":    `UPDATE batch_counts SET recorded = 1, succeeded = 1 WHERE batch_id = $1`,
		"one too many":   `UPDATE batch_counts SET recorded = 3, succeeded = 3, ended_at = now() WHERE batch_id = $1`,
		"another's name": `UPDATE batch_counts SET failed = 1, succeeded = 1 WHERE batch_id = $1`,
	} {
		spoil(sql)
		if v := look(); len(v.Problems) == 0 || !v.Repairable || v.Rows[job.Succeeded] != 2 {
			t.Errorf("%s is not found: %+v", what, v)
		}
		if a, err := repair(); err != nil || a.Outcome != store.ActionDone || !strings.Contains(string(a.Detail), "problems") {
			t.Errorf("%s is not repaired: %+v, %v", what, a, err)
		}
		if v := look(); len(v.Problems) != 0 || v.Recorded != 2 || v.Ended {
			t.Errorf("%s, after its repair: %+v", what, v)
		}
	}
	spoil(`DELETE FROM results WHERE batch_id = $1 AND seq = 1`)
	if v := look(); v.Repairable || len(v.Problems) < 2 {
		t.Errorf("a result that is missing: %+v", v)
	}
	if _, err := repair(); !errors.Is(err, job.ErrRefused) {
		t.Errorf("a result that is missing is repaired: %v", err)
	}
}
