package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/transfer"
)

// mover is a fleet that exports one row, and accepts any import.
type mover struct {
	*httptest.Server
	cut bool   // the export ends early
	got string // the request of the import
}

func newMover(t *testing.T) *mover {
	t.Helper()
	m := &mover{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/admin/tenants/a/export", func(w http.ResponseWriter, r *http.Request) {
		out, err := transfer.NewWriter(w, transfer.Header{ID: someID, Tenant: "a", Objects: []string{"a/", "blobs/a/"}})
		if err == nil {
			err = out.Row("jobs", []byte(`{"id":"`+r.Header.Get(api.HeaderTransferKey)+`"}`))
		}
		if err == nil && !m.cut {
			err = out.End()
		}
		if err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("POST /v1/admin/tenants/a/import", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		m.got = r.Header.Get(api.HeaderTransferKey) + r.URL.Query().Get("reason") + string(raw)
		w.Header().Set("Content-Type", api.JSON)
		_, _ = io.WriteString(w, `{"id":"`+string(someID)+`","outcome":"done"}`)
	})
	m.Server = httptest.NewServer(mux)
	t.Cleanup(m.Close)
	return m
}

func (m *mover) assay(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out strings.Builder
	code := run(t.Context(), append([]string{"--url", m.URL, "admin", "tenant"}, args...), strings.NewReader(""), &out, &out)
	return code, out.String()
}

func TestTenantFile(t *testing.T) {
	t.Parallel()
	m, dir := newMover(t), t.TempDir()
	file, keyFile := filepath.Join(dir, "a.ndjson"), filepath.Join(dir, "key")
	if err := os.WriteFile(keyFile, []byte("the-key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := m.assay(t, "export", "a", file, "--key-file", keyFile)
	if code != 0 || !strings.Contains(out, "1 jobs") || !strings.Contains(out, "a/ blobs/a/") {
		t.Fatalf("export: %d %s", code, out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if code, out := m.assay(t, "export", "a", file); code == 0 || !strings.Contains(out, "exists") {
		t.Errorf("onto a file: %d %s", code, out)
	}
	code, out = m.assay(t, "import", file, "--key-file", keyFile, "-m", "why")
	raw, err := os.ReadFile(file)
	if err != nil || code != 0 || m.got != "the-keywhy"+string(raw) {
		t.Errorf("import: %d %s; the fleet got %q", code, out, m.got)
	}
	m.got = ""
	if err := os.WriteFile(file, raw[:len(raw)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := m.assay(t, "import", file); code == 0 || m.got != "" || !strings.Contains(out, "cut") {
		t.Errorf("a cut file: %d %s; the fleet got %q", code, out, m.got)
	}
	m.cut = true
	other := filepath.Join(dir, "b.ndjson")
	if code, out := m.assay(t, "export", "a", other); code == 0 || !strings.Contains(out, "cut") {
		t.Errorf("a cut export: %d %s", code, out)
	}
	if left, err := filepath.Glob(other + "*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
