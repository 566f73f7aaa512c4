package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// Each kind of bad input gets a 4xx with a problem document that names the field, and leaves nothing behind.
func TestBadJobs(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	big := strings.Repeat("x", 10<<20)
	for name, c := range map[string]struct {
		body   string
		status int
		field  string
	}{
		"empty":                {"", 422, "body"},
		"not JSON":             {"hello", 422, ""},
		"cut short":            {`{"program":{"python":`, 422, ""},
		"two values":           {python("a") + python("b"), 422, ""},
		"unknown field":        {`{"progam":{}}`, 422, "progam"},
		"unknown in policy":    {`{"program":{"python":{"code":"1"}},"policy":{"memroy":"1Gi"}}`, 422, "policy.memroy"},
		"wrong type":           {`{"program":{"python":{"code":1}}}`, 422, "program.python.code"},
		"no program":           {`{"name":"x"}`, 422, "program"},
		"two programs":         {`{"program":{"python":{"code":"1"},"command":{"argv":["x"]}}}`, 422, "program"},
		"bad size":             {`{"program":{"python":{"code":"1"}},"policy":{"memory":"1Zi"}}`, 422, "policy.memory"},
		"absurd limit":         {`{"program":{"python":{"code":"1"}},"policy":{"memory":"900Ti"}}`, 422, "policy.memory"},
		"bare duration":        {`{"program":{"python":{"code":"1"}},"policy":{"wall":10}}`, 422, "policy.wall"},
		"bad image":            {`{"program":{"python":{"code":"1"}},"image":"no such image!"}`, 422, "image"},
		"10 MB of code":        {python(big), 413, "program.python.code"},
		"10 MB of stdin":       {`{"program":{"command":{"argv":["cat"],"stdin":"` + big + `"}}}`, 413, "program.command.stdin"},
		"10 MB in a file":      {`{"program":{"python":{"code":"1"}},"files":{"/workspace/a":{"text":"` + big + `"}}}`, 413, `files["/workspace/a"].text`},
		"10 MB of tests":       {`{"program":{"tests":{"code":"` + big[:1<<20] + `","stdio":[` + strings.Repeat(`{"stdin":"`+big[:1<<20]+`","stdout":"`+big[:1<<20]+`"},`, 5) + `{"stdin":"1"}]}}}`, 413, "program.tests.stdio"},
		"10 MB of a step":      {`{"program":{"command":{"steps":[{"name":"a","argv":["cat"],"stdin":"` + big + `"}]}}}`, 413, "program.command.steps[0].stdin"},
		"5,000 digits":         {`{"program":{"python":{"code":"1","variables":{"n":` + strings.Repeat("7", 5000) + `}}}}`, 422, "program.python.variables.n"},
		"a name given twice":   {`{"program":{"python":{"code":"1","variables":{"n":1,"n":2}}}}`, 422, "program.python.variables.n"},
		"a test above the job": {`{"program":{"tests":{"code":"1","stdio":[{"wall":"1m"}]}}}`, 422, "program.tests.stdio[0].wall"},
		"40 MB":                {python(big + big + big + big), 413, ""},
		"NUL in code":          {`{"program":{"python":{"code":"a\u0000b"}}}`, 422, "program.python.code"},
		"NUL in argv":          {`{"program":{"command":{"argv":["a\u0000b"]}}}`, 422, "program.command.argv[0]"},
		"NUL in name":          {`{"name":"a\u0000","program":{"python":{"code":"1"}}}`, 422, "name"},
		"not UTF-8":            {"{\"name\":\"\xff\",\"program\":{\"python\":{\"code\":\"1\"}}}", 422, ""},
		"file outside":         {`{"program":{"python":{"code":"1"}},"files":{"/etc/passwd":{"text":"x"}}}`, 422, `files["/etc/passwd"]`},
		"file with ..":         {`{"program":{"python":{"code":"1"}},"files":{"/workspace/../etc/x":{"text":"x"}}}`, 422, "files"},
		"file relative":        {`{"program":{"python":{"code":"1"}},"files":{"x":{"text":"x"}}}`, 422, "files"},
		"blob that is missing": {`{"program":{"python":{"code":"1"}},"files":{"/workspace/x":{"blob":"sha256:` + strings.Repeat("0", 64) + `"}}}`, 422, `files["/workspace/x"].blob`},
		"no stored policy":     {`{"program":{"python":{"code":"1"}},"policy":"nope"}`, 422, "policy"},
		"policy of a type":     {`{"program":{"python":{"code":"1"}},"policy":7}`, 422, "policy"},
		"priority":             {`{"program":{"python":{"code":"1"}},"priority":100000}`, 422, "priority"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/v1/jobs", "/v1/run"} {
				if path == "/v1/run" && len(c.body) > 1<<20 {
					continue // the same code, and slow
				}
				resp, body := f.do("POST", path, c.body, "Content-Type", "application/json")
				checkProblem(t, resp, body, c.status, c.field, 0)
			}
		})
	}
	f.empty()
}

func checkProblem(t *testing.T, resp *http.Response, body string, status int, field string, line int) {
	t.Helper()
	var p api.ProblemDetails
	if err := json.Unmarshal([]byte(body), &p); err != nil || resp.Header.Get("Content-Type") != api.Problem {
		t.Fatalf("%d %.200s is not a problem document", resp.StatusCode, body)
	}
	if resp.StatusCode != status || p.Status != status {
		t.Errorf("%d %.300s, want %d", resp.StatusCode, body, status)
	}
	if len(body) > 2000 {
		t.Errorf("the answer has %d bytes", len(body))
	}
	if field == "" && line == 0 {
		return
	}
	if len(p.Errors) == 0 || !strings.HasPrefix(p.Errors[0].Field, field) || p.Errors[0].Line != line || p.Errors[0].Problem == "" {
		t.Errorf("names %+v, want field %q, line %d", p.Errors, field, line)
	}
}

func TestBadBatches(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	bad := `{"program":{"python":{"code":"1"}},"policy":{"memroy":"1Gi"}}`
	at := func(n, total int, line string) string {
		all := strings.SplitAfter(lines(total), "\n")
		all[n-1] = line + "\n"
		return strings.Join(all, "")
	}
	for name, c := range map[string]struct {
		kind, body, query string
		status            int
		field             string
		line              int
	}{
		"empty":               {ndjson, "", "", 422, "jobs", 0},
		"only white space":    {ndjson, "\n \n", "", 422, "jobs", 0},
		"no jobs":             {"application/json", `{"jobs":[]}`, "", 422, "jobs", 0},
		"jobs missing":        {"application/json", `{"name":"x"}`, "", 422, "jobs", 0},
		"unknown field":       {"application/json", `{"job":[]}`, "", 422, "job", 0},
		"bad job":             {"application/json", `{"jobs":[` + python("a") + `,` + bad + `]}`, "", 422, "jobs[1].policy.memroy", 0},
		"bad defaults":        {"application/json", `{"defaults":{"polcy":{}},"jobs":[` + python("a") + `]}`, "", 422, "defaults.polcy", 0},
		"bad label":           {"application/json", `{"labels":{"a":"\u0001"},"jobs":[` + python("a") + `]}`, "", 422, "labels", 0},
		"first line":          {ndjson, at(1, 10, bad), "", 422, "policy.memroy", 1},
		"line in 10000":       {ndjson, at(7777, 10000, bad), "", 422, "policy.memroy", 7777},
		"last line of 10000":  {ndjson, at(10000, 10000, "{"), "", 422, "", 10000},
		"first of two":        {ndjson, strings.Replace(at(5000, 9000, bad), `"job-8000"`, "8000", 1), "", 422, "policy.memroy", 5000},
		"a line that is huge": {ndjson, at(3, 10, strings.Repeat("x", 40<<20)), "", 413, "", 3},
		"a line too large":    {ndjson, at(4, 10, python(strings.Repeat("x", 10<<20))), "", 413, "program.python.code", 4},
		"bad labels in query": {ndjson, lines(1), "?labels=x", 422, "labels", 0},
		"cap of nothing":      {"application/json", `{"label_caps":{"a":0},"jobs":[` + python("a") + `]}`, "", 422, "label_caps.a", 0},
		"cap of a nameless":   {"application/json", `{"label_caps":{"":1},"jobs":[` + python("a") + `]}`, "", 422, "label_caps", 0},
		"cap that is no list": {"application/json", `{"label_caps":["a"],"jobs":[` + python("a") + `]}`, "", 422, "label_caps", 0},
		"huge cap in query":   {ndjson, lines(1), "?label_caps=%7B%22a%22:1e9%7D", 422, "label_caps.a", 0},
		"bad caps in query":   {ndjson, lines(1), "?label_caps=x", 422, "label_caps", 0},
		"too many caps":       {ndjson, lines(1), "?label_caps=%7B%22a%22:1,%22b%22:1,%22c%22:1,%22d%22:1,%22e%22:1,%22f%22:1,%22g%22:1,%22h%22:1,%22i%22:1%7D", 422, "label_caps", 0},
		"bad query defaults":  {ndjson, lines(1), "?defaults=%7B%22x%22:1%7D", 422, "defaults.x", 0},
		"another media type":  {"text/csv", "a,b", "", 422, "Content-Type", 0},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := f.do("POST", "/v1/batches"+c.query, c.body, "Content-Type", c.kind)
			checkProblem(t, resp, body, c.status, c.field, c.line)
		})
	}
	f.empty()
}

// A policy that no connected worker can enforce is refused at once, without a wait.
func TestStrictPolicyThatNobodyEnforces(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	host, err := json.Marshal(policy.Host{Isolations: []policy.Isolation{policy.Task}, Cores: 2, Memory: job.GiB,
		Unenforced: map[string]string{"memory": "no memory controller"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.PutWorkers(t.Context(), []store.Worker{{ID: "w", Pool: pool, Slots: 1, Host: host}}); err != nil {
		t.Fatal(err)
	}
	resp, body := f.do("POST", "/v1/jobs", python("a"))
	checkProblem(t, resp, body, 403, "policy.memory", 0)
	resp, body = f.do("POST", "/v1/batches", lines(1)+python("b"), "Content-Type", ndjson)
	checkProblem(t, resp, body, 403, "policy.memory", 1)
	f.empty()
	f.want(http.StatusCreated, nil, "POST", "/v1/jobs", `{"program":{"python":{"code":"1"}},"policy":{"enforce":"report"}}`)

	var e api.Explanation
	f.want(http.StatusOK, &e, "POST", "/v1/policies/explain", `{"enforce":"strict"}`)
	if e.Host != "w" || !strings.Contains(e.Refused, "policy.memory") || len(e.Enforcement) == 0 {
		t.Errorf("got %+v", e)
	}
}

func TestCeiling(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	if err := f.store.PutTenant(t.Context(), store.Tenant{Name: "default", Weight: 1, Ceiling: json.RawMessage(`{"memory":"128Mi"}`)}); err != nil {
		t.Fatal(err)
	}
	resp, body := f.do("POST", "/v1/jobs", `{"program":{"python":{"code":"1"}},"policy":{"memory":"129Mi"}}`)
	checkProblem(t, resp, body, 403, "policy.memory", 0)
	var r job.Result
	f.want(http.StatusOK, &r, "POST", "/v1/run", python("a")) // the default of 256Mi is lowered
	var j job.Job
	f.want(http.StatusOK, &j, "GET", "/v1/jobs/"+string(r.ID), "")
	if !strings.Contains(string(j.Spec.Policy), `"memory":"128Mi"`) {
		t.Errorf("policy %s", j.Spec.Policy)
	}
}

// Images from registries that the tenant's ceiling does not allow are refused by name, for every way to submit a job.
// Images that workers have are accepted.
func TestCeilingOfRegistries(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ceiling := json.RawMessage(`{"above":"clamp","registries":["ghcr.io/ours"]}`)
	if err := f.store.PutTenant(t.Context(), store.Tenant{Name: "default", Weight: 1, Ceiling: ceiling}); err != nil {
		t.Fatal(err)
	}
	const program = `"program":{"python":{"code":"1"}}}`
	for _, bad := range []string{"someone/python:3", "ghcr.io/theirs/x", "10.0.0.1:5000/x"} {
		resp, body := f.do("POST", "/v1/jobs", `{"image":"`+bad+`",`+program)
		checkProblem(t, resp, body, 403, "image", 0)
		resp, body = f.do("POST", "/v1/batches", `{"defaults":{"image":"`+bad+`"},"jobs":[{`+program+`]}`)
		checkProblem(t, resp, body, 403, "jobs[0].image", 0)
	}
	for _, good := range []string{"ghcr.io/ours/x:1", "assay.local/x"} {
		f.want(http.StatusCreated, nil, "POST", "/v1/jobs", `{"image":"`+good+`",`+program)
	}
	f.want(http.StatusOK, nil, "POST", "/v1/run", python("a"))
}

// A clamping ceiling lowers policies, and the policy lists the requested values.
func TestCeilingThatClamps(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ceiling := json.RawMessage(`{"above":"clamp","memory":"128Mi","network":"none"}`)
	if err := f.store.PutTenant(t.Context(), store.Tenant{Name: "default", Weight: 1, Ceiling: ceiling}); err != nil {
		t.Fatal(err)
	}
	var a api.Accepted
	f.want(http.StatusCreated, &a, "POST", "/v1/jobs", `{"program":{"python":{"code":"1"}},"policy":{"memory":"1Gi","network":{"mode":"open"},"asked":{"cpu":"9"}}}`)
	var j job.Job
	f.want(http.StatusOK, &j, "GET", a.URL, "")
	var p policy.Policy
	if err := json.Unmarshal(j.Spec.Policy, &p); err != nil {
		t.Fatal(err)
	}
	if p.Memory != 128*job.MiB || p.Network.Mode != policy.NetworkNone {
		t.Errorf("policy %s", j.Spec.Policy)
	}
	if d := cmp.Diff(map[string]string{"memory": "1Gi", "network": "open; 1Gi"}, p.Asked); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
}

func TestStoredPolicies(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.want(http.StatusOK, nil, "PUT", "/v1/policies/small", `{"memory":"32Mi"}`)
	for _, bad := range []string{`{"memory":"lots"}`, `"small"`, `[]`, `{`} {
		resp, body := f.do("PUT", "/v1/policies/small", bad)
		checkProblem(t, resp, body, 422, "policy", 0)
	}
	resp, body := f.do("PUT", "/v1/policies/sm%20all", `{}`)
	checkProblem(t, resp, body, 422, "name", 0)
	var a api.Accepted
	f.want(http.StatusCreated, &a, "POST", "/v1/jobs", `{"program":{"python":{"code":"1"}},"policy":"small"}`)
	f.want(http.StatusOK, nil, "PUT", "/v1/policies/small", `{"memory":"48Mi"}`)
	var j job.Job
	f.want(http.StatusOK, &j, "GET", a.URL, "")
	if !strings.Contains(string(j.Spec.Policy), `"memory":"32Mi"`) {
		t.Errorf("a job changed with its policy: %s", j.Spec.Policy)
	}
	if resp, body := f.do("GET", "/v1/policies/small", ""); resp.StatusCode != 200 || !strings.Contains(body, "48Mi") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	var list api.PolicyList
	f.want(http.StatusOK, &list, "GET", "/v1/policies", "")
	if len(list.Policies) != 1 || list.Policies[0].Version != 2 {
		t.Errorf("got %+v", list)
	}
	if resp, body := f.do("GET", "/v1/policies/small@1", ""); resp.StatusCode != 200 || !strings.Contains(body, "32Mi") {
		t.Errorf("version 1: %d %s", resp.StatusCode, body)
	}
	f.want(http.StatusCreated, &a, "POST", "/v1/jobs", `{"program":{"python":{"code":"1"}},"policy":"small@1"}`)
	f.want(http.StatusOK, &j, "GET", a.URL, "")
	if !strings.Contains(string(j.Spec.Policy), `"memory":"32Mi"`) {
		t.Errorf("small@1 is %s", j.Spec.Policy)
	}
	resp, body = f.do("POST", "/v1/jobs", `{"program":{"python":{"code":"1"}},"policy":"small@3"}`)
	checkProblem(t, resp, body, 422, "policy", 0)
}

func TestLargeInputsAreShared(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	big := strings.Repeat("data ", 20<<10)
	var a api.Accepted
	f.want(http.StatusCreated, &a, "POST", "/v1/jobs", fmt.Sprintf(`{"program":{"python":{"code":"1"}},"files":{"/workspace/in":{"text":%q},"/workspace/small":{"text":"s"}}}`, big))
	var j job.Job
	f.want(http.StatusOK, &j, "GET", a.URL, "")
	ref := j.Spec.Files["/workspace/in"].Blob
	if ref == "" || j.Spec.Files["/workspace/small"].Text == nil {
		t.Fatalf("files %+v", j.Spec.Files)
	}
	digest, err := f.client().PutBlob(t.Context(), strings.NewReader(big))
	if err != nil || digest != ref {
		t.Errorf("the same bytes are %s and %s (%v)", ref, digest, err)
	}
	f.want(http.StatusCreated, nil, "POST", "/v1/jobs", `{"program":{"python":{"code":"1"}},"files":{"/workspace/x":{"blob":"`+digest+`"}}}`)
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	digest, err := f.client().PutBlob(t.Context(), strings.NewReader("hello"))
	if err != nil || digest != "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" {
		t.Fatal(digest, err)
	}
	if have, err := f.client().HasBlob(t.Context(), digest); !have || err != nil {
		t.Error(have, err)
	}
	other := "sha256:" + strings.Repeat("1", 64)
	resp, body := f.do("PUT", "/v1/blobs/"+other, "not that", "Content-Type", "application/octet-stream")
	checkProblem(t, resp, body, 422, "", 0)
	if have, _ := f.client().HasBlob(t.Context(), other); have {
		t.Error("stored under a digest that it does not have")
	}
	resp, body = f.do("PUT", "/v1/blobs/sha256:x", "y", "Content-Type", "application/octet-stream")
	checkProblem(t, resp, body, 422, "blob", 0)
}
