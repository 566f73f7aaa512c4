package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// tellSecrets stores a secret, runs a program that uses it over an allow-list, and then searches it
// in all data of the fleet.
func tellSecrets(t *testing.T, f *fleet) {
	const value = "a-secret-of-the-story-of-secrets"
	if err := f.api.PutSecret(t.Context(), "story", value); err != nil {
		t.Fatal(err)
	}
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization") == "Bearer "+value)
	}))
	defer host.Close()
	for _, level := range []string{"cell", "task", "gvisor"} {
		r, err := f.api.Run(t.Context(), spec(t, python(`
import os, urllib.request
token = os.environ["TOKEN"]
request = urllib.request.Request("`+host.URL+`", headers={"Authorization": "Bearer " + token})
print(urllib.request.urlopen(request, timeout=20).read(), token)
token`), level, limits{
			"network": map[string]any{"mode": "allow", "allow": []string{host.Listener.Addr().String()}},
			"env":     map[string]any{"secrets": map[string]string{"TOKEN": "story"}},
		}, ""))
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != job.Succeeded || r.Stdout.Text != "b'true' ***\n" {
			t.Errorf("%s: %s %q %+v", level, r.Outcome, r.Stdout.Text, r.Exception)
		}
		if n := r.Network; n == nil || len(n.Attempts) != 1 || n.Attempts[0].Decision != "allowed" || r.Usage.NetworkBytes == 0 {
			t.Errorf("%s: network %+v, %d bytes", level, n, r.Usage.NetworkBytes)
		}
		if raw, err := json.Marshal(r); err != nil || bytes.Contains(raw, []byte(value)) {
			t.Errorf("%s: the secret is in the result: %s", level, raw)
		}
	}
	for _, file := range holding(t, f.Dir(), []byte(value)) {
		t.Errorf("the secret is in %s", file)
	}
}

// holding lists the files of a fleet that contain text: its database and its write-ahead log, the
// queue, the objects and the logs.
func holding(t *testing.T, dir string, text []byte) (found []string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was temporary
		}
		if d.IsDir() && filepath.Base(path) == "containerd" {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer file.Close()
		raw, err := io.ReadAll(file)
		if files++; err == nil && bytes.Contains(raw, text) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("looked through %d files: %v", files, err)
	}
	return found
}
