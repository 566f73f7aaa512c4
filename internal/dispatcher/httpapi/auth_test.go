package httpapi_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func TestTenantsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	auth, err := identity.ReadTokens("key-a=a,key-b=b")
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, func(c *parts) { c.Auth = auth })
	a, b := f.client(client.WithToken("key-a")), f.client(client.WithToken("key-b"))
	batch, err := a.SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(1)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := a.Run(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: "artifact"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.PutPolicy(t.Context(), "p", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"job": second(b.Job(t.Context(), res.ID, 0)), "result": second(b.Result(t.Context(), res.ID)), "cancel": second(b.Cancel(t.Context(), res.ID)),
		"artifacts": second(b.Artifacts(t.Context(), res.ID)), "artifact": second(b.Artifact(t.Context(), res.ID, "/workspace/out/a b.html")),
		"batch": second(b.Batch(t.Context(), batch.ID, 0)), "cancel batch": second(b.CancelBatch(t.Context(), batch.ID)),
		"retry batch": second(b.RetryBatch(t.Context(), batch.ID)), "policy": second(b.Policy(t.Context(), "p")),
	} {
		if !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%s of another tenant: %v", what, err)
		}
	}
	for range b.Batches(t.Context()) {
		t.Error("lists another tenant's batch")
	}
	// The same idempotency key of another tenant is a different key.
	one := second(a.SubmitBatch(t.Context(), client.BatchOptions{Key: "k"}, strings.NewReader(lines(1))))
	two := second(b.SubmitBatch(t.Context(), client.BatchOptions{Key: "k"}, strings.NewReader(lines(2))))
	if one != nil || two != nil {
		t.Error(one, two)
	}
	for _, c := range []*client.Client{f.client(), f.client(client.WithToken("key-c"))} {
		if _, err := c.Workers(t.Context()); !errors.Is(err, api.ErrUnauthorized) {
			t.Errorf("without a token that is known: %v", err)
		}
		if err := c.Ready(t.Context()); err != nil {
			t.Errorf("probes need no token: %v", err)
		}
	}
	resp := f.want(http.StatusUnauthorized, nil, "GET", "/v1/workers", "")
	if resp.Header.Get("WWW-Authenticate") == "" {
		t.Error("no WWW-Authenticate")
	}
}

func second[T any](_ T, err error) error { return err }

func TestTokens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("# the team\nx=team\n\ny=other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := identity.ReadTokens("@" + file)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequest("GET", "/", nil)
	for header, want := range map[string]string{"Bearer y": "other", "bearer y": "other", "BEARER x": "team", "Basic y": "", "y": "", "Bearer": "", "bearer Y": ""} {
		r.Header.Set("Authorization", header)
		if who, err := a.Identify(r); who.Tenant != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %+v, %v", header, who, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"hunter2", "=x", "hunter2=", "hunter2=a b", "hunter2=a:operators", "hunter2=:operator", "hunter2=a:", "hunter2=a:none", "@/no/such/file", "@" + empty} {
		if _, err := identity.ReadTokens(bad); !errors.Is(err, job.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	s := httpapi.Secret("hunter2")
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "secret", s, "config", struct{ S httpapi.Secret }{s})
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%#v %v %+v %q", s, s, s, s), fmt.Sprintf("%+v", struct{ S httpapi.Secret }{s}), log.String()} {
		if strings.Contains(shown, "hunter2") {
			t.Errorf("shown: %s", shown)
		}
	}
}

// submitTo submits n jobs of a tenant that are never dispatched.
func submitTo(f *fleet, tenant string, n int) error {
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = store.NewJob{ID: job.NewID(), Tenant: tenant, Pool: "default", MaxAttempts: 1, Spec: []byte(`{"program":{"python":{"code":"1"}}}`)}
	}
	_, err := f.store.SubmitBatch(f.t.Context(), store.NewBatch{ID: job.NewID(), Tenant: tenant}, jobs)
	return err
}

// A tenant sees the size of the fleet, but no hosts and no measurements. On 5ee7338 every tenant saw all of it, and
// callers without a token saw the metrics.
func TestOnlyOperatorsSeeTheFleet(t *testing.T) {
	t.Parallel()
	auth, err := identity.ReadTokens("key-a=a,key-o=a:operator")
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, func(c *parts) {
		c.Auth = auth
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "all there is") })
		c.Profiles = c.Metrics
	})
	ws := []store.Worker{{ID: "secret-host", Pool: "default", Slots: 3, Host: []byte(`{"image_digests":{"python":"sha256:1"}}`)}, {ID: "w2", Pool: "default", Slots: 4}, {ID: "w3", Pool: "gpu", Slots: 1}}
	if err := f.store.PutWorkers(t.Context(), ws); err != nil {
		t.Fatal(err)
	}
	mine, err := f.client(client.WithToken("key-a")).Fleet(t.Context())
	sums := []api.PoolSummary{{Pool: "default", Workers: 2, Slots: 7, Free: 7}, {Pool: "gpu", Workers: 1, Slots: 1, Free: 1}}
	if err != nil || len(mine.Workers) != 0 || !slices.Equal(mine.Pools, sums) {
		t.Errorf("a tenant sees %+v, %v", mine, err)
	}
	all, err := f.client(client.WithToken("key-o")).Fleet(t.Context())
	if err != nil || len(all.Workers) != 3 || !slices.Equal(all.Pools, sums) {
		t.Errorf("an operator sees %+v, %v", all, err)
	}
	if err := submitTo(f, "a", 2); err != nil {
		t.Fatal(err)
	}
	if err := submitTo(f, "b", 3); err != nil {
		t.Fatal(err)
	}
	own, err := f.client(client.WithToken("key-a")).Now(t.Context())
	if err != nil || len(own.Workers) != 0 || !slices.Equal(own.Pools, sums) ||
		len(own.Queue) != 1 || own.Queue[0].Pool != "default" || own.Queue[0].Tenant != "a" || own.Queue[0].Queued != 2 {
		t.Errorf("a tenant sees %+v, %v", own, err)
	}
	now, err := f.client(client.WithToken("key-o")).Now(t.Context())
	if err != nil || len(now.Workers) != 3 || len(now.Queue) != 2 || now.Queue[1].Tenant != "b" || now.Queue[1].Queued != 3 || now.Queue[1].OldestSeconds < 0 || now.Queue[1].WaitsFor == "" {
		t.Errorf("an operator sees %+v, %v", now, err)
	}
	for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "key-a": http.StatusForbidden, "key-o": http.StatusOK} {
		for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1"} {
			if code, _ := f.send(token, "GET", path, nil); code != want {
				t.Errorf("%s with token %q: %d, want %d", path, token, code, want)
			}
		}
	}
}
