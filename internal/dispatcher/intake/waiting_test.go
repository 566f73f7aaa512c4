package intake

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestJobsOfAllTenantsAreBounded checks that tenants below their own quotas reach the limit of the fleet, and that
// its error names it.
func TestJobsOfAllTenantsAreBounded(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	newJob := func(tenant string) store.NewJob {
		return store.NewJob{ID: job.NewID(), Tenant: tenant, Pool: "p", Spec: []byte(`{}`)}
	}
	if _, err := s.SubmitBatch(t.Context(), store.NewBatch{ID: job.NewID(), Tenant: "a"}, []store.NewJob{newJob("a"), newJob("a")}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.SubmitJob(t.Context(), newJob("b"), store.Idempotency{}, 0); err != nil {
		t.Fatal(err)
	}
	service := New(Config{Store: s, Admit: &admit.Admitter{Tenants: admit.Recent(s)}, QueuedOfAll: 5})
	ctx := context.Background()
	if r, err := service.roomForJobs(ctx, "c"); err != nil || r.left != 2 {
		t.Errorf("of 5 with 3 there, %d may come, %v", r.left, err)
	}
	service.waiting.accepted("b", 2, 0)
	_, err = service.roomForJobs(ctx, "c")
	if !errors.Is(err, job.ErrTooMany) || !strings.Contains(err.Error(), "5 jobs of all tenants") {
		t.Errorf("a full fleet: %v", err)
	}
}
