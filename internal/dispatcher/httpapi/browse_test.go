package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// mixed returns a finished batch of five jobs. The last two failed.
func (f *fleet) mixed(name string) (b job.Batch) {
	f.t.Helper()
	var jobs []string
	for i, code := range []string{"x", "x", "x", "fail", "fail"} {
		jobs = append(jobs, fmt.Sprintf(`{"name":"job %d","labels":{"n":"%d"},"priority":%d,"program":{"python":{"code":%q}}}`, i, i, i, code))
	}
	f.want(http.StatusCreated, &b, "POST", "/v1/batches?ids=true", `{"name":"`+name+`","jobs":[`+strings.Join(jobs, ",")+`]}`)
	ids := b.IDs
	for !b.Done() {
		f.want(http.StatusOK, &b, "GET", "/v1/batches/"+string(b.ID)+"?wait=10s", "")
	}
	b.IDs = ids
	return b
}

func TestBrowseABatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := f.mixed("one"), f.mixed("two")
	at := "/v1/batches/" + string(a.ID)
	names := func(path string) (got []string) {
		t.Helper()
		var page api.JobList
		f.want(http.StatusOK, &page, "GET", path, "")
		for _, j := range page.Jobs {
			got = append(got, j.Name)
		}
		return got
	}
	for query, want := range map[string][]string{
		"":                               {"job 4", "job 3", "job 2", "job 1", "job 0"},
		"failed=true":                    {"job 4", "job 3"},
		"failure=failed":                 {"job 4", "job 3"},
		"failure=timed_out":              nil,
		"failed=true&name=job+3":         {"job 3"},
		"name_prefix=job&label=n%3D1":    {"job 1"},
		"message=EXIT+code+1":            {"job 4", "job 3"},
		"image=python&outcome=succeeded": {"job 2", "job 1", "job 0"},
		"worker=w2":                      nil,
		"min_duration=1h":                nil,
		"until=2000-01-01T00:00:00Z":     nil,
		"max_duration=1h&limit=2":        {"job 4", "job 3"},
	} {
		if diff := cmp.Diff(want, names(at+"/jobs?"+query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	var lean api.JobList
	f.want(http.StatusOK, &lean, "GET", at+"/jobs?fields=priority&limit=1", "")
	if j := lean.Jobs[0]; j.Priority != 4 || j.Name != "" || j.ID == "" || j.State != job.Finished {
		t.Errorf("one field: %+v", j)
	}
	var m api.BatchMap
	f.want(http.StatusOK, &m, "GET", at+"/map", "")
	if !slices.Equal(m.IDs, a.IDs) || len(a.IDs) != 5 || !slices.Equal(m.Ends, []string{"succeeded", "succeeded", "succeeded", "failed", "failed"}) || m.Next != "" {
		t.Errorf("map %+v of jobs %v", m, a.IDs)
	}
	var s store.BatchSummary
	f.want(http.StatusOK, &s, "GET", at+"/summary", "")
	if len(s.Clusters) != 1 || s.Clusters[0].Jobs != 2 || s.Sampled != 5 || s.Failures[job.Failed] != 2 || s.Clusters[0].Failure != job.Failed {
		t.Errorf("summary %+v", s)
	}
	var c store.Comparison
	f.want(http.StatusOK, &c, "GET", at+"/compare/"+string(b.ID), "")
	if c.By != "name" || c.Same != 5 {
		t.Errorf("comparison %+v", c)
	}
	var states api.BatchStates
	f.want(http.StatusOK, &states, "GET", "/v1/batches/states?id="+string(b.ID)+"&id="+string(job.NewID())+"&id="+string(a.ID), "")
	if len(states.States) != 2 || states.States[0].ID != b.ID || states.States[1].Succeeded != 3 || !states.States[1].Done {
		t.Errorf("states %+v", states)
	}
	var found api.BatchList
	f.want(http.StatusOK, &found, "GET", "/v1/batches?name_prefix=on&open=false&fields=name", "")
	if len(found.Batches) != 1 || found.Batches[0].Name != "one" || found.Batches[0].Tenant != "" || found.Batches[0].Total != 5 {
		t.Errorf("batches %+v", found)
	}
	for path, field := range map[string]string{
		at + "/jobs?failed=perhaps": "failed", at + "/jobs?until=x": "until", at + "/jobs?min_duration=-1s": "min_duration", at + "/jobs?min_duration=2s&max_duration=1s": "max_duration",
		at + "/jobs?message=" + strings.Repeat("x", 300): "message", at + "/jobs?name=%00": "name", at + "/jobs?fields=nam": "fields", at + "/map?after=x": "after", at + "/map?limit=0": "limit",
		at + "/compare/x": "id", at + "/compare/" + string(b.ID) + "?from=-1": "from", "/v1/batches/states?id=x": "id", "/v1/batches/states": "id", "/v1/batches?open=yes": "open", "/v1/admin/actions?limit=": "limit",
		"/v1/jobs?tenant=0.5": "tenant", "/v1/batches?tenant=" + strings.Repeat("x", 64): "tenant", "/v1/keys?tenant=0.5": "tenant", "/v1/sessions?tenant=0.5": "tenant",
		"/v1/jobs?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z": "until", at + "/results?outcome=good": "outcome", at + "/jobs?failure=succeeded": "failure", "/v1/jobs?failure=tle": "failure",
	} {
		var p api.ProblemDetails
		f.want(http.StatusUnprocessableEntity, &p, "GET", path, "")
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", path, p)
		}
	}
	for _, path := range []string{"/jobs", "/summary", "/map", "/compare/" + string(a.ID)} {
		f.want(http.StatusNotFound, nil, "GET", "/v1/batches/"+string(job.NewID())+path, "")
	}
}

func TestResultsOfAnOutcome(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b := f.mixed("one")
	for _, limit := range []int{1, 100} {
		for o, want := range map[job.Outcome]int{job.Failed: 2, job.Succeeded: 3, job.Lost: 0} {
			n := 0
			for after, complete := "0", "false"; complete != "true"; {
				resp, body := f.do("GET", fmt.Sprintf("/v1/batches/%s/results?outcome=%s&limit=%d&after=%s", b.ID, o, limit, after), "")
				n += strings.Count(body, `"outcome":"`+string(o)+`","attempts"`)
				if strings.Count(body, "\n") > limit {
					t.Errorf("a page of %d: %s", limit, body)
				}
				after, complete = resp.Header.Get(api.HeaderCursor), resp.Header.Get(api.HeaderComplete)
			}
			if n != want {
				t.Errorf("%s, %d a page: %d results, want %d", o, limit, n, want)
			}
		}
	}
}

// A client that has a response gets 304 until the response changes.
func TestTagsOfJobsAndBatches(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches?ids=true", `{"jobs":[`+python("x")+`]}`)
	paths := []string{"/v1/batches/" + string(b.ID), "/v1/jobs/" + string(b.IDs[0]), "/v1/batches/states?id=" + string(b.ID)}
	tags := map[string]string{}
	for _, p := range paths {
		resp := f.want(http.StatusOK, nil, "GET", p, "")
		if tags[p] = resp.Header.Get("ETag"); !strings.HasPrefix(tags[p], `W/"`) {
			t.Errorf("%s has the tag %q", p, tags[p])
		}
		if resp, body := f.do("GET", p, "", "If-None-Match", `"other", `+tags[p]); resp.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("%s again: %d %s", p, resp.StatusCode, body)
		}
	}
	f.runner.release()
	f.want(http.StatusOK, nil, "GET", "/v1/jobs/"+string(b.IDs[0])+"/result?wait=10s", "")
	for _, p := range paths {
		if resp := f.want(http.StatusOK, nil, "GET", p, "", "If-None-Match", tags[p]); resp.Header.Get("ETag") == tags[p] {
			t.Errorf("%s is another, and has the same tag", p)
		}
	}
	result := "/v1/jobs/" + string(b.IDs[0]) + "/result"
	tag := f.want(http.StatusOK, nil, "GET", result, "").Header.Get("ETag")
	f.want(http.StatusNotModified, nil, "GET", result, "", "If-None-Match", tag)
	f.want(http.StatusOK, nil, "GET", result+"?fields=id", "", "If-None-Match", tag)
}

func TestArtifactsAreReadByRange(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var r job.Result
	f.want(http.StatusOK, &r, "POST", "/v1/run", python("artifact"))
	const text = "<script>alert(1)</script>"
	at := r.Artifacts[0].URL
	tag := f.want(http.StatusOK, nil, "GET", at, "").Header.Get("ETag")
	for _, c := range []struct {
		ranges, ifRange string
		status          int
		want            string
	}{
		{"bytes=1-6", "", 206, "script"}, {"bytes=-9", "", 206, "</script>"}, {"bytes=8-", tag, 206, text[8:]},
		{"bytes=1-6", `"another"`, 200, text}, {"bytes=100-", "", 416, ""},
	} {
		header := []string{"Range", c.ranges}
		if c.ifRange != "" {
			header = append(header, "If-Range", c.ifRange)
		}
		resp, body := f.do("GET", at, "", header...)
		if resp.StatusCode != c.status || c.status != 416 && body != c.want {
			t.Errorf("%v: %d %q", c, resp.StatusCode, body)
		}
		if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%v: a browser may guess", c)
		}
	}
}

// Callers see only their own tenant's jobs and batches. Operators see another tenant's by name.
func TestBrowsingIsOfOneTenant(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{})
	if code, p := f.send("of-kind", "POST", "/v1/batches", strings.NewReader(`{"jobs":[`+python("x")+`]}`), "Content-Type", api.JSON); code != http.StatusCreated {
		t.Fatal(code, p.Detail)
	}
	mine, err := f.store.Batches(t.Context(), "", "", 1)
	if err != nil || len(mine) != 1 {
		t.Fatal(mine, err)
	}
	b := mine[0]
	for _, path := range []string{"/jobs", "/summary", "/map", "/compare/" + string(b.ID), "/results?outcome=failed"} {
		f.want(http.StatusOK, nil, "GET", "/v1/batches/"+string(b.ID)+path, "", "Authorization", "Bearer of-kind")
		f.want(http.StatusNotFound, nil, "GET", "/v1/batches/"+string(b.ID)+path, "", "Authorization", "Bearer of-mean")
	}
	var states api.BatchStates
	f.want(http.StatusOK, &states, "GET", "/v1/batches/states?id="+string(b.ID), "", "Authorization", "Bearer of-mean")
	if len(states.States) > 0 {
		t.Errorf("another tenant's batch: %+v", states)
	}
	for _, path := range []string{"/v1/jobs?tenant=" + b.Tenant, "/v1/jobs?tenant=*", "/v1/batches?tenant=*", "/v1/sessions?tenant=*", "/v1/sessions?tenant=" + b.Tenant} {
		f.want(http.StatusForbidden, nil, "GET", path, "", "Authorization", "Bearer of-mean")
	}
}

// Erased jobs and batches disappear together with their objects. Unfinished ones stay.
func TestEraseJobsAndBatches(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	stored := func() (n int) {
		for o, err := range f.objects.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(o.Key, "fleet.gone/") { // notes for restores stay
				n++
			}
		}
		return n
	}
	var r job.Result
	f.want(http.StatusOK, &r, "POST", "/v1/run", python("artifact"))
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches?ids=true", `{"jobs":[`+python("artifact")+`,`+python("x")+`,`+python("hang")+`]}`)
	one, all, last := "/v1/jobs/"+string(b.IDs[0]), "/v1/batches/"+string(b.ID), "/v1/jobs/"+string(b.IDs[2])
	f.want(http.StatusOK, nil, "GET", one+"/result?wait=10s", "")
	for _, path := range []string{one, all, last} {
		f.want(http.StatusConflict, nil, "DELETE", path, "")
	}
	if n := stored(); n != 2 {
		t.Errorf("%d objects, want 2", n)
	}
	f.want(http.StatusOK, nil, "POST", last+"/cancel", "")
	f.want(http.StatusOK, &b, "GET", all+"?wait=10s", "")
	var done store.Action
	f.want(http.StatusOK, &done, "DELETE", one, "")
	if done.Subject != string(b.IDs[0]) || done.Actor == "" || done.Detail != nil {
		t.Errorf("record %+v", done)
	}
	f.want(http.StatusNotFound, nil, "GET", one, "")
	if f.want(http.StatusOK, &b, "GET", all, ""); b.Total != 2 || stored() != 1 {
		t.Errorf("%+v, %d objects", b, stored())
	}
	f.want(http.StatusOK, nil, "DELETE", all, "")
	f.want(http.StatusNotFound, nil, "GET", all, "")
	f.want(http.StatusNotFound, nil, "GET", last, "")
	f.want(http.StatusOK, nil, "DELETE", "/v1/jobs/"+string(r.ID), "")
	if n := stored(); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}

func TestCancelDryRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", `{"jobs":[`+python("x")+`,`+python("x")+`]}`)
	f.want(http.StatusCreated, nil, "POST", "/v1/jobs", python("x"))
	for body, want := range map[string]int64{`{"batch":"` + string(b.ID) + `","dry_run":true}`: 2, `{"state":"queued","dry_run":true}`: 3, `{"state":"running","dry_run":true}`: 0} {
		var got api.CancelReport
		f.want(http.StatusOK, &got, "POST", "/v1/jobs/cancel", body)
		if got.Canceled != want || !got.DryRun {
			t.Errorf("%s: %+v", body, got)
		}
	}
	var got api.CancelReport
	if f.want(http.StatusOK, &got, "POST", "/v1/jobs/cancel", `{"batch":"`+string(b.ID)+`"}`); got.Canceled != 2 || got.DryRun {
		t.Errorf("canceled: %+v", got)
	}
	for body, field := range map[string]string{`{"dry_run":true}`: "labels", `{"state":"finished"}`: "state", `{"batch":"x"}`: "batch"} {
		var p api.ProblemDetails
		f.want(http.StatusUnprocessableEntity, &p, "POST", "/v1/jobs/cancel", body)
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// Waiting jobs get another priority by batch and by label. A dry run counts them.
func TestPrioritize(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	var b job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", `{"jobs":[`+python("x")+`,`+python("x")+`]}`)
	f.want(http.StatusCreated, nil, "POST", "/v1/jobs", `{"labels":{"run":"7"},"program":{"python":{"code":"x"}}}`)
	for _, c := range []struct {
		body    string
		changed int64
	}{
		{`{"batch":"` + string(b.ID) + `","priority":5,"dry_run":true}`, 2}, {`{"batch":"` + string(b.ID) + `","priority":5}`, 2},
		{`{"batch":"` + string(b.ID) + `","priority":5}`, 0}, {`{"labels":{"run":"7"},"priority":-1000}`, 1}, {`{"labels":{"run":"8"},"priority":1}`, 0},
	} {
		var got api.PriorityReport
		f.want(http.StatusOK, &got, "POST", "/v1/jobs/priority", c.body)
		if got.Changed != c.changed || got.DryRun != strings.Contains(c.body, "dry_run") {
			t.Errorf("%s: %+v", c.body, got)
		}
	}
	var list api.JobList
	f.want(http.StatusOK, &list, "GET", "/v1/jobs", "")
	found := map[int]int{}
	for _, j := range list.Jobs {
		found[j.Priority]++
	}
	if found[5] != 2 || found[-1000] != 1 {
		t.Errorf("priorities: %v", found)
	}
	resp, text := f.do("POST", "/v1/batches?ids=perhaps", `{"jobs":[`+python("x")+`]}`)
	checkProblem(t, resp, text, http.StatusUnprocessableEntity, "ids", 0)
	at := `{"labels":{"run":"7"},`
	for body, field := range map[string]string{`{"priority":5}`: "labels", at + `"priority":1001}`: "priority", at + `"dry_run":true}`: "priority", `{"batch":"x","priority":1}`: "batch"} {
		var p api.ProblemDetails
		f.want(http.StatusUnprocessableEntity, &p, "POST", "/v1/jobs/priority", body)
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// Polling ten thousand batches takes ten requests and a small part of a second.
func TestPollingManyBatchesIsCheap(t *testing.T) {
	f := newFleet(t)
	f.runner.hold()
	ids := f.batches(10_000)
	poll := func() (took time.Duration) {
		start := cpuTime(t)
		for chunk := range slices.Chunk(ids, 1000) {
			resp, err := http.Get(f.url + "/v1/batches/states?id=" + strings.Join(chunk, "&id="))
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(resp, err)
			}
			resp.Body.Close()
		}
		return cpuTime(t) - start
	}
	poll()
	if took := poll(); took > 500*time.Millisecond {
		t.Errorf("asking about %d batches took %v of CPU time, client and server", len(ids), took)
	} else {
		t.Logf("%d batches: %v of CPU time, client and server", len(ids), took)
	}
}
