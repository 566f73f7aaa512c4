package postgres

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/schema"
)

// TestEveryOutcomeIsCounted checks that each outcome is counted by its name, and that a batch's counters
// agree with its results. After the way back to the previous release, each outcome has a name of that
// release, and the counters still agree.
func TestEveryOutcomeIsCounted(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	if err := Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s := openTestOn(t, dsn)
	batch, want := finishAll(t, s)
	b, err := s.Batch(t.Context(), "acme", batch)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.Outcomes); diff != "" || b.Counts[job.Finished] != int64(len(want)-1) || !b.Done() {
		t.Errorf("%v of %d, done %v (-want +got):\n%s", b.Counts, b.Total, b.Done(), diff)
	}
	if err := schema.DownTo(t.Context(), dsn, 23); err != nil {
		t.Fatal(err)
	}
	var failed, refused, recorded int
	row := s.db.Pool.QueryRow(t.Context(), `SELECT failed, policy_violation, recorded FROM batch_counts WHERE batch_id = $1`, pg.UUID(batch))
	if err := row.Scan(&failed, &refused, &recorded); err != nil || failed != 3 || refused != 2 || recorded != len(want) {
		t.Errorf("the counters of the release before: %d failed, %d refused, of %d, %v", failed, refused, recorded, err)
	}
	for table, column := range map[string]string{"results": "id", "jobs": "id"} {
		if n := queryStrings(t, s, `SELECT `+column+`::text FROM `+table+` WHERE outcome IN ('failed', 'policy_violation')`); len(n) != 5 {
			t.Errorf("%s: %d failed or were refused, want 5", table, len(n))
		}
	}
	if err := Migrate(t.Context(), dsn); err != nil {
		t.Errorf("up again: %v", err)
	}
}

// finishAll makes a batch with a job for each outcome, and returns the reports of the calls.
func finishAll(t *testing.T, s *Store) (job.ID, map[job.Outcome]int64) {
	t.Helper()
	ctx := t.Context()
	var jobs []store.NewJob
	for range job.Outcomes {
		jobs = append(jobs, store.NewJob{ID: job.NewID(), Tenant: "acme", Pool: "default", Spec: []byte(`{"program":{"python":{"code":"1"}}}`)})
	}
	batch, err := s.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: "acme"}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	ds, err := s.Schedule(ctx, []string{"default"}, len(jobs))
	if err != nil || len(ds) != len(jobs) {
		t.Fatal(ds, err)
	}
	want := map[job.Outcome]int64{}
	for i, d := range ds {
		c, err := s.Claim(ctx, time.Minute, []store.Claim{{Ref: d.Ref, Worker: "w"}})
		if err != nil {
			t.Fatal(err)
		}
		o := job.Outcomes[i]
		f := store.Finish{Worker: "w", LeaseRef: store.LeaseRef{Job: d.Job, Lease: c[0].Lease}, Outcome: o, Result: []byte(`{}`)}
		if st, err := s.Finish(ctx, []store.Finish{f}); err != nil || st[0] != store.Recorded {
			t.Fatalf("%s: %v, %v", o, st, err)
		}
		want[o]++
	}
	return batch, want
}
