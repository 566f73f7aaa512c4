package postgres

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestJobsAmongManyOfOthers checks that a page examines a limited number of jobs of all tenants, and that the
// list continues after them.
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
		page, err := s.BrowseJobs(ctx, "few", store.JobQuery{Before: before, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		jobs, next := page.Jobs, page.Next
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
	if p, err := s.BrowseJobs(ctx, "many", store.JobQuery{Limit: 2}); err != nil || len(p.Jobs) != 2 || p.Next != p.Jobs[1].ID {
		t.Errorf("a full page: %+v, %v", p, err)
	}
}

// TestJobsOfAnOutcomeFillTheirPage checks that jobs with other outcomes take no place on a page, however many
// they are.
func TestJobsOfAnOutcomeFillTheirPage(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	var jobs []store.NewJob
	for range 5000 {
		jobs = append(jobs, store.NewJob{ID: job.NewID(), Tenant: "acme", Pool: "p", Spec: []byte(`{}`)})
	}
	if _, err := s.SubmitBatch(ctx, store.NewBatch{ID: job.NewID(), Tenant: "acme"}, jobs); err != nil {
		t.Fatal(err)
	}
	// Of the first 2,000 each tenth failed; all others succeeded.
	if _, err := s.db.Pool.Exec(ctx, `UPDATE jobs j SET state = 'finished', ended_at = now(), outcome = CASE WHEN n < 2000 AND n % 10 = 0 THEN 'failed' ELSE 'succeeded' END
		FROM (SELECT id, row_number() OVER (ORDER BY id) - 1 AS n FROM jobs) o WHERE o.id = j.id`); err != nil {
		t.Fatal(err)
	}
	seen := map[job.ID]bool{}
	for page, before := 0, job.ID(""); ; page++ {
		found, err := s.BrowseJobs(ctx, "acme", store.JobQuery{JobFilter: store.JobFilter{Outcome: job.Failed}, Before: before, Limit: 50})
		if err != nil {
			t.Fatal(err)
		}
		jobs, next := found.Jobs, found.Next
		for _, j := range jobs {
			seen[j.ID] = true
		}
		if len(jobs) != 50 && next != "" || page > 4 {
			t.Fatalf("page %d has %d jobs, next %q", page, len(jobs), next)
		}
		if before = next; next == "" {
			break
		}
	}
	if len(seen) != 200 {
		t.Errorf("%d jobs, want 200", len(seen))
	}
}
