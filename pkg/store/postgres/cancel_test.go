package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// TestCancelInParts cancels more jobs than one call has time for. The first call cancels the running jobs; a
// few more calls by any caller end the rest.
func TestCancelInParts(t *testing.T) {
	t.Parallel()
	for how, cancel := range map[string]func(s *Store, batch job.ID) ([]store.Canceling, error){
		"batch": func(s *Store, batch job.ID) ([]store.Canceling, error) { return s.CancelBatch(t.Context(), batch) },
		"label": func(s *Store, batch job.ID) ([]store.Canceling, error) {
			c, err := s.CancelMany(t.Context(), "acme", store.CancelQuery{Labels: map[string]string{"batch": string(batch)}})
			return c.Running, err
		},
		"reap": func(s *Store, batch job.ID) ([]store.Canceling, error) {
			if _, err := s.db.Pool.Exec(t.Context(), `UPDATE batches SET cancel_requested = true WHERE id = $1`, pg.UUID(batch)); err != nil {
				return nil, err
			}
			st, err := s.Reap(t.Context())
			return st.Stopping, err
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := openTest(t, Config{cancelTime: 1}) // a chunk each
			testCancelInParts(t, s, func(batch job.ID) ([]store.Canceling, error) { return cancel(s, batch) })
		})
	}
}

// cancelChunk equals the constant of package lifecycle.
const cancelChunk = 2000

func testCancelInParts(t *testing.T, s *Store, cancel func(batch job.ID) ([]store.Canceling, error)) {
	const n = 3*cancelChunk - 1
	id := job.NewID()
	jobs := make([]store.NewJob, n+1)
	for i := range jobs {
		jobs[i] = store.NewJob{ID: job.NewID(), Tenant: "acme", Pool: "p", Spec: fmt.Appendf(nil, `{"labels":{"batch":%q}}`, id)}
	}
	if _, err := s.SubmitBatch(t.Context(), store.NewBatch{ID: id, Tenant: "acme"}, jobs); err != nil {
		t.Fatal(err)
	}
	ds, err := s.Schedule(t.Context(), []string{"p"}, 1)
	if err != nil || len(ds) != 1 {
		t.Fatalf("%v, %v", ds, err)
	}
	if _, err := s.Claim(t.Context(), time.Minute, []store.Claim{{Ref: ds[0].Ref, Worker: "w"}}); err != nil {
		t.Fatal(err)
	}
	for round, left := 1, int64(n); left > 0; round++ {
		running, err := cancel(id)
		if err != nil || len(running) != 1 || running[0].Job != ds[0].Job {
			t.Fatalf("round %d: running %+v, %v", round, running, err)
		}
		b, err := s.Batch(t.Context(), "", id)
		if err != nil {
			t.Fatal(err)
		}
		if left = b.Counts[job.Queued]; left != int64(max(n-round*cancelChunk, 0)) {
			t.Fatalf("round %d: %d are left", round, left)
		}
	}
}
