package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// jobNames returns the names of a filter's jobs, over all pages.
func (f *fixture) jobNames(filter store.JobFilter, page int) (names []string) {
	f.Helper()
	for before := job.ID(""); ; {
		got, err := f.BrowseJobs(f.Context(), tenant, store.JobQuery{JobFilter: filter, Before: before, Limit: page})
		f.must(err)
		jobs, next := got.Jobs, got.Next
		if len(jobs) > page {
			f.Fatalf("%d jobs on a page of %d", len(jobs), page)
		}
		for _, j := range jobs {
			names = append(names, j.Name)
		}
		if next == "" {
			return names
		}
		if before != "" && next >= before {
			f.Fatalf("from %s to %s: it does not come to an end", before, next)
		}
		before = next
	}
}

func testJobs(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	over, running := newJob("over"), newJob("running")
	f.submitJob(over)
	f.finish(leaseOf(f.claim(f.schedule(1)[0].Ref)[0]), job.Failed)
	f.running(running)
	stranger := newJob("a stranger's")
	stranger.Tenant = "another"
	f.submitJob(stranger)
	labeled := newJob("labeled")
	labeled.Spec = []byte(`{"name":"labeled","labels":{"run":"8"},"program":{"python":{"code":"1"}}}`)
	plain := newJob("plain")
	batch := store.NewBatch{ID: job.NewID(), Tenant: tenant, Labels: map[string]string{"run": "7", "who": "me"}}
	_, err := f.SubmitBatch(ctx, batch, []store.NewJob{plain, labeled})
	f.must(err)
	late := newJob("late")
	f.submitJob(late)
	unsealed := store.NewBatch{ID: job.NewID(), Tenant: tenant}
	_, _, err = f.OpenBatch(ctx, unsealed)
	f.must(err)
	f.must(f.AppendJobs(ctx, unsealed.ID, []store.NewJob{newJob("uploading")}))
	_, err = f.Cancel(ctx, late.ID)
	f.must(err)

	called := map[job.ID]string{over.ID: "over", running.ID: "running", labeled.ID: "labeled", plain.ID: "plain", late.ID: "late"}
	var all []string
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(called))) {
		all = append(all, called[id])
	}
	for _, page := range []int{1, 2, 100} {
		t.Run(fmt.Sprintf("all, %d a page", page), func(t *testing.T) {
			if diff := cmp.Diff(all, f.with(t).jobNames(store.JobFilter{}, page)); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
		})
	}
	for what, c := range map[string]struct {
		filter store.JobFilter
		want   []string
	}{
		"queued":          {store.JobFilter{State: job.Queued}, []string{"labeled", "plain"}},
		"running":         {store.JobFilter{State: job.Running}, []string{"running"}},
		"finished":        {store.JobFilter{State: job.Finished}, []string{"over"}},
		"canceled":        {store.JobFilter{State: job.Canceled}, []string{"late"}},
		"ended so":        {store.JobFilter{Outcome: job.Failed}, []string{"over"}},
		"ended by cancel": {store.JobFilter{Outcome: job.OutcomeCanceled, State: job.Canceled}, []string{"late"}},
		"none ended so":   {store.JobFilter{Outcome: job.Succeeded}, nil},
		"not over, ended": {store.JobFilter{Outcome: job.Failed, State: job.Queued}, nil},
		"of a batch":      {store.JobFilter{Batch: batch.ID}, []string{"labeled", "plain"}},
		"label of a job":  {store.JobFilter{Labels: map[string]string{"run": "8"}}, []string{"labeled"}},
		"of its batch":    {store.JobFilter{Labels: map[string]string{"run": "7"}}, []string{"plain"}},
		"of both":         {store.JobFilter{Labels: map[string]string{"run": "8", "who": "me"}}, []string{"labeled"}},
		"several":         {store.JobFilter{Labels: map[string]string{"k": "v"}, State: job.Finished}, []string{"over"}},
		"of nobody":       {store.JobFilter{Labels: map[string]string{"run": "9"}}, nil},
		"from now on":     {store.JobFilter{Since: time.Now().Add(time.Hour)}, nil},
		"since yesterday": {store.JobFilter{Since: time.Now().Add(-24 * time.Hour), Batch: batch.ID, State: job.Queued}, []string{"labeled", "plain"}},
	} {
		t.Run(what, func(t *testing.T) {
			got := f.with(t).jobNames(c.filter, 1)
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
		})
	}
	for _, none := range []job.ID{job.NewID(), unsealed.ID} {
		_, err := f.BrowseJobs(ctx, tenant, store.JobQuery{JobFilter: store.JobFilter{Batch: none}, Limit: 10})
		f.mustBe(err, job.ErrNotFound)
	}
	if _, err := f.BrowseJobs(ctx, "another", store.JobQuery{JobFilter: store.JobFilter{Batch: batch.ID}, Limit: 10}); err == nil {
		t.Error("a stranger's batch was listed")
	}

	page, err := f.BrowseJobs(ctx, tenant, store.JobQuery{JobFilter: store.JobFilter{State: job.Finished}, Limit: 10})
	f.must(err)
	full, err := f.Job(ctx, tenant, over.ID)
	f.must(err)
	want := []job.Summary{{ID: over.ID, Name: "over", Labels: map[string]string{"k": "v"}, State: job.Finished, Outcome: job.Failed, Failure: job.Failed,
		Tenant: tenant, Message: full.Result.Message, Attempts: 1, DurationMS: float64(full.EndedAt.Sub(full.StartedAt).Microseconds()) / 1000,
		Worker: worker, CreatedAt: full.CreatedAt, StartedAt: full.StartedAt, EndedAt: full.EndedAt}}
	if diff := cmp.Diff(want, page.Jobs, cmpopts.EquateApprox(0, 0.001)); diff != "" {
		t.Errorf("a job that is over (-want +got):\n%s", diff)
	}
}

// Jobs with one outcome are listed once each, and no others, for any page size.
func testJobsByOutcome(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ended := map[job.Outcome][]string{}
	var jobs []store.NewJob
	for n := range 24 {
		jobs = append(jobs, newJob(fmt.Sprintf("job %02d", n)))
	}
	f.submit(jobs...)
	outcomes := []job.Outcome{job.Succeeded, job.Succeeded, job.Failed, job.TimedOut}
	for n, c := range f.run() {
		if o := outcomes[n%len(outcomes)]; n < 21 { // the last ones still run
			f.finish(leaseOf(c), o)
			ended[o] = append(ended[o], f.result(c.Job).Name)
		}
	}
	for _, page := range []int{1, 2, 5, 100} {
		for _, o := range append(outcomes[1:], job.Lost) {
			t.Run(fmt.Sprintf("%s, %d a page", o, page), func(t *testing.T) {
				got := f.with(t).jobNames(store.JobFilter{Outcome: o}, page)
				if !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b, a) }) {
					t.Errorf("not the last ones first: %q", got)
				}
				slices.Sort(got)
				if diff := cmp.Diff(slices.Sorted(slices.Values(ended[o])), got); diff != "" {
					t.Errorf("jobs (-want +got):\n%s", diff)
				}
			})
		}
	}
}
