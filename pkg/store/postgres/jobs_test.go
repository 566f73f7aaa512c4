package postgres

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// A page is looked for in so many jobs, whoever's they are: the list goes on behind them.
func TestJobsAmongManyOfOthers(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{jobsLook: 4})
	ctx := t.Context()
	submit := func(tenant string, n int) {
		var jobs []store.NewJob
		for range n {
			jobs = append(jobs, store.NewJob{ID: job.NewID(), Tenant: tenant, Pool: "p", Spec: []byte(`{}`)})
		}
		if _, err := s.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: tenant}, jobs); err != nil {
			t.Fatal(err)
		}
	}
	submit("few", 1)
	submit("many", 11)
	submit("few", 2)
	pages, found, empty := 0, 0, 0
	for before := job.ID(""); ; pages++ {
		jobs, next, err := s.Jobs(ctx, "few", store.JobFilter{}, before, 10)
		if err != nil {
			t.Fatal(err)
		}
		found += len(jobs)
		if len(jobs) == 0 {
			empty++
		}
		if before = next; next == "" {
			break
		}
	}
	if found != 3 || empty < 2 || pages > 4 {
		t.Errorf("%d jobs on %d pages, %d of them empty", found, pages+1, empty)
	}
	if jobs, next, err := s.Jobs(ctx, "many", store.JobFilter{}, "", 2); err != nil || len(jobs) != 2 || next != jobs[1].ID {
		t.Errorf("a full page: %v, %s, %v", jobs, next, err)
	}
}
