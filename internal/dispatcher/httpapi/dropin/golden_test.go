package dropin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/dropin"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/files"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
)

var update = flag.Bool("update", false, "write what is got into testdata: read the difference before it is committed")

// exchange is a file of testdata: a request, its job, the fleet's result, and the response.
type exchange struct {
	About   string          `json:"about"`
	Path    string          `json:"path"`
	Request json.RawMessage `json:"request"`
	Policy  json.RawMessage `json:"policy,omitempty"`  // the tenant's, named drop-in
	Ceiling json.RawMessage `json:"ceiling,omitempty"` // the tenant's
	Spec    json.RawMessage `json:"spec,omitempty"`    // without its policy; limits has that
	Limits  *limits         `json:"limits,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Files   string          `json:"files,omitempty"` // content of every object in the store
	Status  int             `json:"status"`
	Answer  json.RawMessage `json:"answer"`
}

// limits are the parts of the job's policy that depend on the request.
type limits struct {
	Wall      job.Duration `json:"wall"`
	CPUTime   job.Duration `json:"cpu_time"`
	Memory    job.Size     `json:"memory"`
	Processes int          `json:"processes"`
	Stdout    job.Size     `json:"stdout"`
	Paths     []string     `json:"paths"`
}

// Each request becomes the job in its file, and each result becomes the response.
func TestExchanges(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*/*.json")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(name, "testdata/"), ".json"), func(t *testing.T) {
			t.Parallel()
			var x exchange
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			d := json.NewDecoder(bytes.NewReader(raw))
			d.DisallowUnknownFields()
			if err := d.Decode(&x); err != nil {
				t.Fatal(err)
			}
			got := x
			got.run(t)
			if *update {
				write(t, name, &got)
				return
			}
			if diff := cmp.Diff(plain(t, &x), plain(t, &got)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", name, diff)
			}
		})
	}
}

// run sends the request of x and fills in the results.
func (x *exchange) run(t *testing.T) {
	f := &fleet{result: x.Result, policy: x.Policy, files: x.Files}
	if err := json.Unmarshal(orNull(x.Ceiling), &f.ceiling); err != nil {
		t.Fatal(err)
	}
	resp := f.post(t, x.Path, x.Request)
	x.Status, x.Answer, x.Spec, x.Limits = resp.Code, resp.Body.Bytes(), nil, nil
	if f.spec == nil {
		return
	}
	var spec job.Spec
	if err := job.Decode(f.spec, "", &spec); err != nil {
		t.Fatalf("the job is refused: %v", err)
	}
	if spec.ExpiresIn <= 0 {
		t.Errorf("the job waits for %v", spec.ExpiresIn)
	}
	p, err := policy.Parse(spec.Policy)
	if err != nil {
		t.Fatalf("the policy of the job is refused: %v", err)
	}
	x.Limits = &limits{p.Wall, p.CPUTime, p.Memory, p.Processes, p.Stdout.Limit, p.Artifacts.Paths}
	spec.Policy, spec.ExpiresIn = nil, 0
	if x.Spec, err = json.Marshal(spec); err != nil {
		t.Fatal(err)
	}
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// plain returns x without the white space of its file.
func plain(t *testing.T, x *exchange) (out any) {
	raw, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, name string, x *exchange) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(x); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fleet is a fake with one result for every job.
type fleet struct {
	result  json.RawMessage
	err     error // of every submission unless nil
	policy  json.RawMessage
	ceiling policy.Ceiling
	files   string

	mu       sync.Mutex // the submissions of a batch are concurrent
	spec     json.RawMessage
	runs     int
	canceled []job.ID
	waits    []time.Duration
	hang     bool // no job gets a result
}

const (
	tenant = "team"
	jobID  = "01a1fbae-e621-7000-8673-41b7c23dc507"
)

func (f *fleet) RunJob(r *http.Request, spec []byte, wait time.Duration) (job.ID, json.RawMessage, error) {
	f.mu.Lock()
	f.spec, f.runs, f.waits = spec, f.runs+1, append(f.waits, wait)
	f.mu.Unlock()
	switch {
	case f.err != nil:
		return "", nil, f.err
	case f.hang:
		web.Sleep(r.Context(), wait, nil)
		return jobID, nil, r.Context().Err()
	}
	return jobID, f.result, nil
}

func (f *fleet) CancelJob(_ *http.Request, id job.ID) { f.canceled = append(f.canceled, id) }

func (f *fleet) Load(*http.Request) (int64, int, error) { return 7, 2, nil }

func (f *fleet) Policy(_ context.Context, of, name string, _ int) (json.RawMessage, error) {
	if of != tenant || name != "drop-in" {
		return nil, fmt.Errorf("policy %s of %s", name, of)
	}
	if f.policy == nil {
		return nil, job.ErrNotFound
	}
	return f.policy, nil
}

func (f *fleet) Get(_ context.Context, key string) (io.ReadCloser, object.Info, error) {
	return io.NopCloser(strings.NewReader(f.files)), object.Info{Bytes: int64(len(f.files))}, nil
}

func (f *fleet) GetRange(_ context.Context, key string, offset, n int64) (io.ReadCloser, object.Info, error) {
	rest := f.files[offset:]
	if n >= 0 { // otherwise to the end
		rest = rest[:min(int(n), len(rest))]
	}
	return io.NopCloser(strings.NewReader(rest)), object.Info{Bytes: int64(len(f.files))}, nil
}

// handlers returns the drop-ins over f.
func (f *fleet) handlers() *dropin.Handlers {
	return &dropin.Handlers{
		Jobs: f, Policies: f, Files: &files.Files{Objects: f},
		Languages: func(image string) map[string]string {
			return map[string]map[string]string{"python": {"python": "Python 3.11.2"}, "polyglot": {"cpp": "g++ (Debian 12.2.0-14) 12.2.0", "python": "Python 3.11.2"}}[image]
		},
		Ceiling: func(context.Context, string) (policy.Ceiling, error) { return f.ceiling, nil },
	}
}

// post sends a request to a server with every endpoint.
func (f *fleet) post(t *testing.T, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return f.send(t, r)
}

func (f *fleet) send(t *testing.T, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	resp := httptest.NewRecorder()
	r = r.WithContext(web.WithCaller(r.Context(), &web.Caller{
		Identity: identity.Identity{Tenant: tenant, Role: identity.Submitter}, Memory: share.Claim{Pot: share.NewPot("bodies", 1<<30), Tenant: tenant}, Arrived: time.Now()}))
	mux := http.NewServeMux()
	for _, route := range f.handlers().Routes(dropin.Names()) {
		mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := route.Serve(w, r); err != nil {
				web.Fail(slog.New(slog.DiscardHandler), w, r, err, route.Fail)
			}
		})
	}
	mux.ServeHTTP(resp, r)
	return resp
}
