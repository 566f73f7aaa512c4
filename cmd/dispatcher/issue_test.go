package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/assay-run/assay/pkg/queue/identity"
)

// apiServer keeps Secrets as the API server does: a merge patch against an older version is
// a conflict, and null takes away.
type apiServer struct {
	mu      sync.Mutex
	secrets map[string]map[string]string // base64 values
	version map[string]int
	disturb int // so many patches are preceded by somebody else's
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/fleet/secrets/")
	if !ok || r.Header.Get("Authorization") != "Bearer t0ken" {
		http.Error(w, `{"message":"not yours"}`, http.StatusForbidden)
		return
	}
	if s.secrets[name] == nil {
		http.Error(w, `{}`, http.StatusNotFound)
		return
	}
	if r.Method == http.MethodPatch {
		var patch struct {
			Metadata struct{ ResourceVersion string }
			Data     map[string]*string
		}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
			http.Error(w, `{"message":"no patch"}`, http.StatusBadRequest)
			return
		}
		if s.disturb > 0 {
			s.disturb--
			s.version[name]++
		}
		if patch.Metadata.ResourceVersion != fmt.Sprint(s.version[name]) {
			http.Error(w, `{}`, http.StatusConflict)
			return
		}
		for k, v := range patch.Data {
			if v == nil {
				delete(s.secrets[name], k)
			} else {
				s.secrets[name][k] = *v
			}
		}
		s.version[name]++
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": fmt.Sprint(s.version[name])}, "data": s.secrets[name]})
}

func (s *apiServer) entries(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.secrets[name]))
}

func (s *apiServer) value(t *testing.T, name, entry string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := base64.StdEncoding.DecodeString(s.secrets[name][entry])
	if err != nil || len(raw) == 0 {
		t.Fatalf("%s has no %s: %v", name, entry, err)
	}
	return string(raw)
}

func startCluster(t *testing.T) (*apiServer, *cluster) {
	t.Helper()
	api := &apiServer{version: map[string]int{}, secrets: map[string]map[string]string{
		"f-workers-key": {}, "f-nats": {}, "f-worker-default": {}, "f-worker-gpu": {}}}
	srv := httptest.NewTLSServer(api)
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "t0ken\n", "namespace": "fleet",
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := newCluster(srv.URL, dir)
	if err != nil {
		t.Fatal(err)
	}
	return api, c
}

// TestIssue: what is issued fits together, is issued once, and a rotation leaves what was
// issued before it good.
func TestIssue(t *testing.T) {
	t.Parallel()
	api, c := startCluster(t)
	api.disturb = 3
	at := func(generation int) *issuing {
		return &issuing{Name: "f", Pools: []string{"default", "gpu"}, Generation: generation}
	}
	for range 2 { // the Job runs again at every upgrade
		if err := at(1).issue(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	check := func(key, token string, good bool) {
		t.Helper()
		k, err := identity.ParseKey(api.value(t, "f-workers-key", key))
		if err != nil {
			t.Fatal(err)
		}
		w, err := identity.NewWorker("w", "gpu", token)
		if err != nil {
			t.Fatal(err)
		}
		public, err := w.Key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Check(token, w.ID, "gpu", public); (err == nil) != good {
			t.Errorf("%s: %v, want good: %v", key, err, good)
		}
		if k.Check(token, w.ID, "default", public) == nil {
			t.Errorf("%s: the token of a pool is good for another", key)
		}
	}
	first, config := api.value(t, "f-worker-gpu", "token-1"), api.value(t, "f-nats", "authorization.conf")
	check("key-1", first, true)
	if err := at(2).issue(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	second := api.value(t, "f-worker-gpu", "token-2")
	check("key-2", first, true)
	check("key-2", second, true)
	check("key-1", second, false)
	if err := at(3).issue(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	check("key-3", first, false)
	check("key-3", second, true)
	if api.value(t, "f-nats", "authorization.conf") != config {
		t.Error("a rotation changes what the server must know")
	}
	for name, want := range map[string]string{"f-workers-key": "key-2 key-3", "f-worker-default": "token-2 token-3", "f-worker-gpu": "token-2 token-3"} {
		if got := strings.Join(api.entries(name), " "); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	if err := at(2).issue(t.Context(), c); err != nil || api.value(t, "f-worker-gpu", "token-2") != second {
		t.Errorf("rolled back: %v, or another token", err)
	}
	if err := at(1).issue(t.Context(), c); err == nil || !strings.Contains(err.Error(), "a rotation needs a higher one") {
		t.Errorf("back by two: %v", err)
	}
}

func TestIssueSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, c := startCluster(t)
	err := (&issuing{Name: "f", Pools: []string{"nowhere"}, Generation: 1}).issue(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "f-worker-nowhere") {
		t.Errorf("a Secret that is not there: %v", err)
	}
	c.token = "another"
	err = (&issuing{Name: "f", Pools: []string{"gpu"}, Generation: 1}).issue(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "not yours") {
		t.Errorf("a service account without rights: %v", err)
	}
}
