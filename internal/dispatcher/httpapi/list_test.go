package httpapi_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func TestListJobs(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	var single api.Accepted
	f.want(http.StatusCreated, &single, "POST", "/v1/jobs", `{"name":"single","labels":{"a":"b=c"},"program":{"python":{"code":"x"}}}`)
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", `{"labels":{"run":"7"},"jobs":[`+python("x")+`,`+python("y")+`]}`)
	list := func(filter client.JobFilter) (ids []job.ID) {
		t.Helper()
		for j, err := range f.client().Jobs(t.Context(), filter) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, j.ID)
		}
		return ids
	}
	if got := list(client.JobFilter{}); len(got) != 3 || got[2] != single.ID || !slices.IsSortedFunc(got, func(a, b job.ID) int { return strings.Compare(string(b), string(a)) }) {
		t.Errorf("all: %v", got)
	}
	for what, c := range map[string]struct {
		filter client.JobFilter
		want   int
	}{
		"of the batch":    {client.JobFilter{Batch: b.ID}, 2},
		"with its label":  {client.JobFilter{Labels: map[string]string{"run": "7"}}, 2},
		"with one's own":  {client.JobFilter{Labels: map[string]string{"a": "b=c"}}, 1},
		"canceled":        {client.JobFilter{State: job.Canceled}, 0},
		"of the last day": {client.JobFilter{Since: time.Now().Add(-24 * time.Hour)}, 3},
	} {
		if got := list(c.filter); len(got) != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	var page api.JobList
	f.want(http.StatusOK, &page, "GET", "/v1/jobs?limit=2", "")
	if len(page.Jobs) != 2 || page.Next != page.Jobs[1].ID {
		t.Errorf("a page: %+v", page)
	}
	f.want(http.StatusOK, &page, "GET", "/v1/jobs?limit=2&before="+string(page.Next), "")
	if len(page.Jobs) != 1 || page.Jobs[0].Name != "single" || page.Jobs[0].Labels["a"] != "b=c" {
		t.Errorf("the next page: %+v", page)
	}
	f.want(http.StatusNotFound, nil, "GET", "/v1/jobs?batch="+string(job.NewID()), "")
	for query, field := range map[string]string{
		"state=lost": "state", "batch=x": "batch", "before=x": "before", "since=yesterday": "since", "limit=1001": "limit", "label=x": "label", "label==x": "label",
		"outcome=good": "outcome", "outcome=failed&state=queued": "outcome", "outcome=canceled&state=finished": "outcome", "label=a=1&label=a=2": "label", "label=" + url.QueryEscape(strings.Repeat("k", 1000)+"=v"): "label",
	} {
		var p api.ProblemDetails
		f.want(http.StatusUnprocessableEntity, &p, "GET", "/v1/jobs?"+query, "")
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// Each tenant sees its own jobs.
func TestListJobsOfOneTenant(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{})
	f.runner.hold()
	if code, p := f.send("of-kind", "POST", "/v1/jobs", strings.NewReader(python("x")), "Content-Type", api.JSON); code != http.StatusCreated {
		t.Fatal(code, p.Detail)
	}
	for token, want := range map[string]int{"of-kind": 1, "of-mean": 0} {
		var page api.JobList
		f.want(http.StatusOK, &page, "GET", "/v1/jobs", "", "Authorization", "Bearer "+token)
		if len(page.Jobs) != want || page.Jobs == nil {
			t.Errorf("%s: %+v", token, page)
		}
	}
}

// Lists by outcome work with pages of any size.
func TestListJobsByOutcome(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", `{"jobs":[`+strings.Join([]string{python("x"), python("fail"), python("y"), python("fail"), python("fail")}, ",")+`]}`)
	for !b.Done() {
		f.want(http.StatusOK, &b, "GET", "/v1/batches/"+string(b.ID)+"?wait=10s", "")
	}
	var late api.Accepted
	f.want(http.StatusCreated, &late, "POST", "/v1/jobs", python("hang"))
	f.want(http.StatusOK, nil, "POST", "/v1/jobs/"+string(late.ID)+"/cancel", "")
	f.want(http.StatusOK, nil, "GET", "/v1/jobs/"+string(late.ID)+"/result?wait=10s", "")
	for o, want := range map[job.Outcome]int{job.Succeeded: 2, job.Failed: 3, job.OutcomeCanceled: 1, job.Lost: 0} {
		n := 0
		for j, err := range f.client().Jobs(t.Context(), client.JobFilter{Outcome: o}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; j.Outcome != o {
				t.Errorf("%s: %+v", o, j)
			}
		}
		if n != want {
			t.Errorf("%s: %d jobs, want %d", o, n, want)
		}
		seen := map[job.ID]bool{}
		for page := (api.JobList{Next: job.NewID()}); page.Next != ""; {
			before := page.Next
			page = api.JobList{}
			f.want(http.StatusOK, &page, "GET", "/v1/jobs?limit=1&outcome="+string(o)+"&before="+string(before), "")
			for _, j := range page.Jobs {
				seen[j.ID] = true
			}
			if len(page.Jobs) > 1 {
				t.Errorf("%s: a page of %d", o, len(page.Jobs))
			}
		}
		if len(seen) != want {
			t.Errorf("%s, one a page: %d jobs, want %d", o, len(seen), want)
		}
	}
}

// Operators list the sessions of one tenant or of all. Other callers list only their own.
func TestSessionsOfAllTenants(t *testing.T) {
	t.Parallel()
	f, _, _ := operated(t)
	ids := map[string]job.ID{}
	for _, tenant := range []string{"a", "b"} {
		ids[tenant] = job.NewID()
		if err := f.store.PutSession(t.Context(), tenant, job.Session{ID: ids[tenant], Worker: "w"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	list := func(key, tenant string, live bool, want ...string) {
		t.Helper()
		found, err := f.client(client.WithToken(key)).TenantSessions(t.Context(), tenant, live)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range found {
			if s.ID != ids[s.Tenant] {
				t.Errorf("session %s is of %q", s.ID, s.Tenant)
			}
			got = append(got, s.Tenant)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s lists sessions of %q for %q, want %q", key, got, tenant, want)
		}
	}
	for _, live := range []bool{true, false} {
		list("key-o", client.AllTenants, live, "b", "a")
		list("key-o", "a", live, "a")
		list("key-o", "", live)
		list("key-a", "", live, "a")
		list("key-a", "a", live, "a")
	}
	for _, tenant := range []string{client.AllTenants, "b"} {
		_, err := f.client(client.WithToken("key-a")).TenantSessions(t.Context(), tenant, true)
		if !errors.Is(err, job.ErrRefused) || !strings.Contains(err.Error(), "sessions of other tenants are for operators") {
			t.Errorf("tenant %q: %v", tenant, err)
		}
	}
}

// Workers have the memory and the disk space in use that they report, in the fleet and in the list of workers.
func TestWorkersHaveTheirUsage(t *testing.T) {
	t.Parallel()
	f, op, _ := operated(t)
	load := store.WorkerLoad{Cores: 2, MemoryUsed: 3 << 30, Memory: 8 << 30, DiskUsed: 5 << 30, Disk: 1 << 50}
	if err := f.store.PutWorkers(t.Context(), []store.Worker{{ID: "x", Pool: pool, Slots: 1, StartedAt: time.Now(), Load: load}}); err != nil {
		t.Fatal(err)
	}
	check := func(what string, found ...store.Worker) {
		t.Helper()
		n := 0
		for _, w := range found {
			n++
			got, want := store.WorkerLoad{Cores: w.Cores, MemoryUsed: w.MemoryUsed, Memory: w.Memory, DiskUsed: w.DiskUsed, Disk: w.Disk}, store.WorkerLoad{}
			if w.ID == "x" {
				want = load
			}
			if got != want {
				t.Errorf("%s: worker %s has %+v, want %+v", what, w.ID, got, want)
			}
		}
		if n == 0 {
			t.Errorf("%s: no worker", what)
		}
	}
	var list api.WorkerList
	f.want(http.StatusOK, &list, "GET", "/v1/workers", "", "Authorization", "Bearer key-o")
	check("workers", list.Workers...)
	var now api.Fleet
	f.want(http.StatusOK, &now, "GET", "/v1/fleet", "", "Authorization", "Bearer key-o")
	check("fleet", now.Workers...)
	one, err := op.Worker(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	check("worker", one.Worker)
}
