package httpapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/job"
)

var segment = regexp.MustCompile(`\{\w+(\.\.\.)?\}`)

// Every route rejects unknown query parameters. On f72b5e1 all ignored them.
func TestUnknownQueryParameters(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, pattern := range httpapi.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		path = segment.ReplaceAllString(path, string(job.NewID()))
		resp, body := f.do(method, path+"?timeuot=5s", "")
		if method == http.MethodHead {
			if resp.StatusCode != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d", pattern, resp.StatusCode)
			}
			continue
		}
		t.Run(pattern, func(t *testing.T) { checkProblem(t, resp, body, 422, "timeuot", 0) })
	}
	for query, want := range map[string]string{
		"wiat=1s":                   "did you mean wait?",
		"wait=1s&wait=2s":           "2 times",
		"wait=1s;x=1":               "query: cannot be read",
		"%zz":                       "query: cannot be read",
		strings.Repeat("x", 10_000): "unknown query parameter",
		"a%0Ab=1":                   `\"a\\nb\": unknown query parameter; there are`,
	} {
		resp, body := f.do("GET", "/v1/jobs/"+string(job.NewID())+"?"+query, "")
		checkProblem(t, resp, body, 422, "", 0)
		if raw, _ := json.Marshal(want); !strings.Contains(body, want) && !strings.Contains(body, strings.Trim(string(raw), `"`)) {
			t.Errorf("%.40s: %s", query, body)
		}
	}
	f.want(http.StatusOK, nil, "GET", "/v1/jobs?label=a=1&label=b=2", "")
	// The query parameters of NDJSON batches are fields of a batch object.
	resp, body := f.do("POST", "/v1/batches?name=x", `{"jobs":[`+python("a")+`]}`)
	checkProblem(t, resp, body, 422, "name", 0)
	f.empty()
}

// A fixed path is never taken for an object's name.
func TestFixedAddressesAreNoNames(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/v1/jobs/cancel", "POST"},
		{"DELETE", "/v1/jobs/cancel", "POST"},
		{"GET", "/v1/policies/explain", "POST"},
		{"PUT", "/v1/policies/explain", "POST"},
		{"PATCH", "/v1/jobs", "POST, GET, HEAD"},
		{"PATCH", "/v1/jobs/" + string(job.NewID()), "GET, HEAD, DELETE"},
		{"POST", "/healthz", "GET, HEAD"},
	} {
		resp, body := f.do(c.method, c.path, "")
		var p api.ProblemDetails
		if err := json.Unmarshal([]byte(body), &p); err != nil || resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q, want %q: %s", c.method, c.path, resp.StatusCode, resp.Header.Get("Allow"), c.allow, body)
		}
	}
	resp, err := http.Head(f.url + "/healthz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Error(resp, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	resp, body := f.do("POST", "/v1/policies/explain", "null")
	checkProblem(t, resp, body, 422, "policy", 0)
	resp, body = f.do("POST", "/v1/policies/explain", "7")
	checkProblem(t, resp, body, 422, "policy", 0)
}

// A null in a request is the same as an absent field, and the document allows it: the checker of these tests verifies
// that.
func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	nothing := `"name":null,"labels":null,"image":null,"priority":null,"files":null,"policy":null,"pool":null,"requires":null,"retry":null,"expires_in":null,"cache":null`
	f.want(http.StatusOK, nil, "POST", "/v1/run", `{"program":{"python":{"code":"a"}},`+nothing+`}`)
	f.want(http.StatusCreated, nil, "POST", "/v1/jobs", `{"program":{"python":{"code":"a"}},`+nothing+`}`)
	f.want(http.StatusCreated, nil, "POST", "/v1/batches", `{"name":null,"labels":null,"label_caps":null,"defaults":null,"callback":null,"lease":null,"jobs":[`+python("a")+`]}`)
}
