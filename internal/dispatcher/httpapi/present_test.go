package httpapi_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// All results list the API addresses of their artifacts, as the list of artifacts does. On f72b5e1 only the list did,
// and results had internal object names.
func TestArtifactsSayWhereTheyAreServed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var ran job.Result
	f.want(http.StatusOK, &ran, "POST", "/v1/run", python("artifact"))
	want := "/v1/jobs/" + string(ran.ID) + "/artifacts/workspace/out/a%20b.html"
	check := func(where string, r *job.Result, want string) {
		t.Helper()
		if r == nil || len(r.Artifacts) != 1 || r.Artifacts[0].URL != want || r.Artifacts[0].Object != "" {
			t.Errorf("%s: %+v", where, r)
		}
	}
	check("run", &ran, want)
	var read job.Result
	f.want(http.StatusOK, &read, "GET", "/v1/jobs/"+string(ran.ID)+"/result", "")
	check("result", &read, want)
	if d := cmp.Diff(ran, read); d != "" {
		t.Errorf("run and result differ (-run +result):\n%s", d)
	}
	var j job.Job
	f.want(http.StatusOK, &j, "GET", "/v1/jobs/"+string(ran.ID), "")
	check("job", j.Result, want)

	b, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(python("artifact")))
	if err != nil {
		t.Fatal(err)
	}
	_, body := f.do("GET", "/v1/batches/"+string(b.ID)+"/results?wait=30s", "")
	var line job.Result
	if err := json.Unmarshal([]byte(body), &line); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	check("results of a batch", &line, "/v1/jobs/"+string(line.ID)+"/artifacts/workspace/out/a%20b.html")
	if resp, text := f.do("GET", line.Artifacts[0].URL, ""); resp.StatusCode != http.StatusOK || !strings.Contains(text, "alert") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}

// All routes select fields of results and jobs in the same way.
func TestFields(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var ran job.Result
	f.want(http.StatusOK, &ran, "POST", "/v1/run", python("artifact"))
	b, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(python("a")))
	if err != nil {
		t.Fatal(err)
	}
	id := "/v1/jobs/" + string(ran.ID)
	for _, c := range []struct {
		method, path, body string
		want               []string
	}{
		{"POST", "/v1/run?fields=outcome", python("a"), []string{"outcome"}},
		{"GET", id + "/result?fields=id,artifacts,message", "", []string{"id", "artifacts"}}, // missing fields are omitted
		{"GET", id + "?fields=state,id", "", []string{"id", "state"}},
		{"GET", "/v1/batches/" + string(b.ID) + "/results?wait=30s&fields=id,stdout", "", []string{"id", "stdout"}},
	} {
		_, body := f.do(c.method, c.path, c.body)
		got := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%s: %v in %s", c.path, err, body)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s has %s", c.path, body)
		}
		for _, name := range c.want {
			if got[name] == nil {
				t.Errorf("%s has no %s: %s", c.path, name, body)
			}
		}
	}
	clientsFields(t, f, ran.ID, b.ID)
	for _, path := range []string{id, id + "/result", "/v1/batches/" + string(b.ID) + "/results"} {
		for _, fields := range []string{"outcom", "id,,state", "id,%20state", "*"} {
			resp, body := f.do("GET", path+"?fields="+fields, "")
			checkProblem(t, resp, body, 422, "fields", 0)
		}
	}
	if _, body := f.do("GET", id+"/result?fields=outcom", ""); !strings.Contains(body, "did you mean outcome?") {
		t.Errorf("no advice: %s", body)
	}
}

// clientsFields selects fields with the Go client.
func clientsFields(t *testing.T, f *fleet, id, batch job.ID) {
	t.Helper()
	ctx, c := t.Context(), f.client()
	has := func(what string, raw json.RawMessage, err error, want ...string) {
		t.Helper()
		var got map[string]json.RawMessage
		if err = errors.Join(err, json.Unmarshal(raw, &got)); err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
			t.Errorf("%s has %s, want %q: %v", what, raw, want, err)
		}
	}
	raw, err := c.RunFields(ctx, job.Spec{Program: job.Program{Python: &job.Python{Code: "1"}}}, "outcome", "id")
	has("a run", raw, err, "id", "outcome")
	raw, err = c.ResultFields(ctx, id, "outcome")
	has("a result", raw, err, "outcome")
	raw, err = c.JobFields(ctx, id, 0, "id")
	has("a job", raw, err, "id")
	raw, err = c.JobFields(ctx, id, time.Minute, "id")
	has("a job with a wait", raw, err, "id", "state")
	for _, follow := range []bool{false, true} {
		n := 0
		for raw, err := range c.Results(ctx, batch, follow, "id", "outcome") {
			has("a batch's result", raw, err, "id", "outcome")
			n++
		}
		if n != 1 {
			t.Errorf("%d results", n)
		}
	}
	var field *job.FieldError
	if _, err := c.ResultFields(ctx, id, "outcom"); !errors.As(err, &field) || field.Field != "fields" {
		t.Errorf("a field that there is not: %v", err)
	}
}

// Error details describe the request, and not the internal layers.
func TestDetailsTellNoLayers(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	nobody := string(job.NewID())
	for path, want := range map[string]string{
		"/v1/jobs/" + nobody:                      "not found: job " + nobody,
		"/v1/jobs/" + nobody + "/result":          "not found: job " + nobody,
		"/v1/jobs/" + nobody + "/artifacts":       "not found: job " + nobody,
		"/v1/jobs/" + nobody + "/output/stdout":   "not found: job " + nobody,
		"/v1/batches/" + nobody:                   "not found: batch " + nobody,
		"/v1/batches/" + nobody + "/results":      "not found: batch " + nobody,
		"/v1/batches/" + nobody + "/events":       "not found: batch " + nobody,
		"/v1/sessions/" + nobody:                  "not found: session " + nobody,
		"/v1/policies/nope":                       `not found: policy "nope"`,
		"/v1/jobs/" + nobody + "?wait=" + "1hour": `wait: duration "1hour" must be numbers with units, such as "1.5s" or "1h30m"; units are ms, s, m and h`,
	} {
		resp, body := f.do("GET", path, "")
		var p struct{ Detail string }
		if err := json.Unmarshal([]byte(body), &p); err != nil || p.Detail != want {
			t.Errorf("%s: %d %q, want %q", path, resp.StatusCode, p.Detail, want)
		}
	}
}

// A wait over the maximum is cut. An invalid wait gets an error that names it.
func TestWaitsOutOfRange(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	resp, body := f.do("GET", "/v1/batches/"+string(job.NewID())+"?wait=99999999999999h", "")
	checkProblem(t, resp, body, 422, "wait", 0)
	if !strings.Contains(body, "out of range") {
		t.Error(body)
	}
	start := time.Now()
	f.want(http.StatusNotFound, nil, "GET", "/v1/batches/"+string(job.NewID())+"?wait=9999h", "")
	if time.Since(start) > 10*time.Second {
		t.Error("an unknown batch was waited for")
	}
}
