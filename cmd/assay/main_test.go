package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"ASSAY_URL", "ASSAY_TOKEN", "ASSAY_PATIENCE"} {
		_ = os.Unsetenv(name)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// server is a fleet that answers as it is told. The real one is tested in
// internal/dispatcher/httpapi; what matters here is what the command makes of its answers.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	specs    []job.Spec
	canceled []string
	query    string
	callback string
	caps     string
	lease    string
	body     string
	result   job.Result
	hang     bool // results never come
	files    map[string]string
	fleet    api.Fleet
	operator bool
}

// visible reports whether the caller may list a tenant's jobs.
func (s *server) visible(tenant string) bool { return tenant == "" || s.operator }

const (
	someID  = job.ID("01932c07-8f6a-7c3e-9d2b-5a1f0e4c7b88")
	otherID = job.ID("01932c07-8f6a-7c3e-9d2b-5a1f0e4c7b89")
)

func newServer(t *testing.T, result job.Result) *server {
	t.Helper()
	s := &server{result: result, files: map[string]string{}}
	s.result.ID = someID
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", api.JSON)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	refuse := func(w http.ResponseWriter, err error) {
		p := api.NewProblem(err)
		w.Header().Set("Content-Type", api.Problem)
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p)
	}
	batch := job.Batch{ID: someID, Total: 2, CreatedAt: time.Unix(1, 0), Counts: map[job.State]int64{job.Finished: 2},
		Outcomes: map[job.Outcome]int64{job.Succeeded: 1, job.TimedOut: 1}}
	mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		spec, err := job.DecodeSpec(raw)
		if err != nil {
			refuse(w, err)
			return
		}
		s.mu.Lock()
		s.specs = append(s.specs, spec)
		s.mu.Unlock()
		answer(w, http.StatusCreated, api.Accepted{ID: someID, State: job.Queued, URL: "/v1/jobs/" + string(someID)})
	})
	mux.HandleFunc("GET /v1/jobs/{id}/result", func(w http.ResponseWriter, r *http.Request) {
		if s.hang {
			<-r.Context().Done()
			return
		}
		answer(w, http.StatusOK, s.result)
	})
	mux.HandleFunc("GET /v1/jobs/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") != string(someID) {
			refuse(w, fmt.Errorf("read job: %w", job.ErrNotFound))
			return
		}
		if fields := r.URL.Query().Get("fields"); fields != "" {
			answer(w, http.StatusOK, map[string]string{"asked": fields})
			return
		}
		answer(w, http.StatusOK, job.Job{ID: someID, State: job.Finished, Worker: "w1", Result: &s.result})
	})
	mux.HandleFunc("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if !s.visible(q.Get("tenant")) {
			refuse(w, fmt.Errorf("%w: jobs of other tenants are for operators", job.ErrRefused))
			return
		}
		// The first page is empty, as after a long scan without a match.
		if q.Get("before") == "" {
			answer(w, http.StatusOK, api.JobList{Jobs: []job.Summary{}, Next: someID})
			return
		}
		name := "one"
		if filtered := q.Get("state") == "finished" && q.Get("outcome") == "failed" && q.Get("label") == "run=7" && q.Get("since") != ""; !filtered || q.Has("worker") &&
			(q.Get("name_prefix") != "tw" || q.Get("worker") != "w1" || q.Get("message") != "m" || q.Get("min_duration") != "1s") {
			name = "unfiltered"
		}
		answer(w, http.StatusOK, api.JobList{Next: someID, Jobs: []job.Summary{
			{ID: someID, Name: name, Tenant: q.Get("tenant"), State: job.Finished, Outcome: job.Failed, Worker: "w1", CreatedAt: time.Unix(1, 0)}}})
	})
	mux.HandleFunc("POST /v1/jobs/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.canceled = append(s.canceled, r.PathValue("id"))
		s.mu.Unlock()
		answer(w, http.StatusOK, api.Accepted{ID: someID, State: job.Running})
	})
	for _, what := range []string{"job", "batch"} {
		path := map[string]string{"job": "DELETE /v1/jobs/{id}", "batch": "DELETE /v1/batches/{id}"}[what]
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			answer(w, http.StatusOK, store.Action{ID: someID, Action: "erase " + what, Subject: r.PathValue("id"), Outcome: store.ActionDone})
		})
	}
	mux.HandleFunc("POST /v1/jobs/cancel", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.body = string(raw)
		s.mu.Unlock()
		answer(w, http.StatusOK, api.CancelReport{Canceled: 3, Stopping: 2})
	})
	mux.HandleFunc("POST /v1/jobs/priority", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.body = string(raw)
		s.mu.Unlock()
		answer(w, http.StatusOK, api.PriorityReport{Changed: 3, DryRun: strings.Contains(string(raw), "dry_run")})
	})
	mux.HandleFunc("GET /v1/jobs/{id}/output/{stream}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, s.files[r.PathValue("stream")+r.URL.Query().Get("step")])
	})
	mux.HandleFunc("GET /v1/jobs/{id}/artifacts", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, api.ArtifactList{Artifacts: s.result.Artifacts})
	})
	mux.HandleFunc("GET /v1/jobs/{id}/artifacts/{path...}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, s.files["/"+r.PathValue("path")])
	})
	mux.HandleFunc("GET /v1/batches", func(w http.ResponseWriter, r *http.Request) {
		tenant := r.URL.Query().Get("tenant")
		if !s.visible(tenant) {
			refuse(w, fmt.Errorf("%w: jobs of other tenants are for operators", job.ErrRefused))
			return
		}
		found := batch
		found.Tenant = tenant
		answer(w, http.StatusOK, api.BatchList{Batches: []job.Batch{found}})
	})
	mux.HandleFunc("POST /v1/batches", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.query, s.caps, s.body = r.URL.Query().Get("defaults"), r.URL.Query().Get("label_caps"), string(raw)
		s.callback = r.URL.Query().Get("callback")
		s.lease = r.URL.Query().Get("lease")
		s.mu.Unlock()
		for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
			if _, err := job.DecodeSpec([]byte(line)); err != nil {
				refuse(w, &job.FieldError{Line: i + 1, Problem: err.Error()})
				return
			}
		}
		answer(w, http.StatusCreated, batch)
	})
	mux.HandleFunc("GET /v1/batches/{id}", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, batch) })
	mux.HandleFunc("GET /v1/batches/{id}/events", func(w http.ResponseWriter, _ *http.Request) {
		raw, _ := json.Marshal(batch)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: done\ndata: %s\n\n", raw)
	})
	mux.HandleFunc("GET /v1/batches/{id}/results", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderCursor, "2")
		w.Header().Set(api.HeaderComplete, "true")
		if fields := r.URL.Query().Get("fields"); fields != "" {
			answer(w, http.StatusOK, map[string]string{"asked": fields})
			return
		}
		_, _ = io.WriteString(w, `{"id":"a","outcome":"succeeded"}`+"\n"+`{"id":"b","outcome":"failed"}`+"\n")
	})
	mux.HandleFunc("GET /v1/workers", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, api.WorkerList{Workers: []store.Worker{{ID: "w1", Pool: "default", Slots: 8, MemoryUsed: 3 << 30, Memory: 8 << 30, StartedAt: time.Now(), Offer: json.RawMessage(`{"labels":{"gpu":"a100"},"images":["cuda"],"memory":20221211440}`)}}})
	})
	sessions := []job.Session{
		{ID: someID, Spec: job.SessionSpec{Name: "agent\x1b", Kind: job.SessionShell, Policy: json.RawMessage(`{"memory":"2Gi"}`)}, State: job.SessionLive, Worker: "w1", Executions: 3, CreatedAt: time.Now()},
		{ID: otherID, State: job.SessionEnded, Outcome: job.Succeeded, Message: "closed", Worker: "w2", CreatedAt: time.Unix(1, 0), EndedAt: new(time.Time), Parent: someID},
	}
	mux.HandleFunc("GET /v1/sessions", func(w http.ResponseWriter, r *http.Request) {
		tenant := r.URL.Query().Get("tenant")
		if !s.visible(tenant) {
			refuse(w, fmt.Errorf("%w: sessions of other tenants are for operators", job.ErrRefused))
			return
		}
		found := slices.Clone(sessions)
		for i := range found {
			found[i].Tenant = strings.ReplaceAll(tenant, "*", "some")
		}
		if r.URL.Query().Get("state") == "live" {
			found = found[:1]
		}
		answer(w, http.StatusOK, api.SessionList{Sessions: found})
	})
	mux.HandleFunc("/v1/sessions/{id}", func(w http.ResponseWriter, r *http.Request) {
		i := slices.IndexFunc(sessions, func(s job.Session) bool { return string(s.ID) == r.PathValue("id") })
		if i < 0 {
			refuse(w, fmt.Errorf("read session %s: %w", r.PathValue("id"), job.ErrNotFound))
			return
		}
		if r.Method == http.MethodDelete {
			s.mu.Lock()
			s.canceled = append(s.canceled, r.PathValue("id"))
			s.mu.Unlock()
		}
		answer(w, http.StatusOK, sessions[i])
	})
	mux.HandleFunc("GET /v1/fleet", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.fleet) })
	mux.HandleFunc("POST /v1/policies/explain", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		e := api.Explanation{Policy: raw, Host: "w1", Enforcement: []job.Enforcement{{Capability: "memory", Requested: "1Gi", Applied: "1Gi", Mechanism: "cgroup memory", Level: job.LevelKernel}}}
		if strings.Contains(string(raw), "packages") {
			e.Refused = "policy.packages: not enforced yet"
		}
		answer(w, http.StatusOK, e)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// assay runs the command against s.
func (s *server) assay(ctx context.Context, stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, append([]string{"--url", s.URL, "--patience", "0s"}, args...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// write makes a file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}
