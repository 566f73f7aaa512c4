package postgres

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// A batch may be retried while retention takes its jobs away: the retry is then
// of what is left, and done if that is nothing.
func TestRetryOfForgottenJobs(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	old := store.NewBatch{ID: job.NewID(), Tenant: "acme"}
	if _, err := s.SubmitBatch(t.Context(), old, []store.NewJob{{ID: job.NewID(), Tenant: "acme", Pool: "p", Spec: []byte(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CancelBatch(t.Context(), old.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `DELETE FROM results`); err != nil {
		t.Fatal(err)
	}
	made, err := s.RetryBatch(t.Context(), old.ID, store.NewBatch{ID: job.NewID(), Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.Batch(t.Context(), "acme", made); err != nil || b.Total != 0 || !b.Done() || b.EndedAt.IsZero() {
		t.Errorf("got %+v, %v", b, err)
	}
}
