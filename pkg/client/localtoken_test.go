package client_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/client"
)

// A client without a token sends only the token that assay dev stored for that address.
func TestLocalToken(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"workers":[]}`))
	}))
	defer srv.Close()
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	sent := func(address string, o ...client.Option) string {
		t.Helper()
		c, err := client.New(address, append(o, client.WithPatience(0))...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Workers(t.Context()); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if s := sent(srv.URL); s != "" {
		t.Errorf("without a file: %q", s)
	}
	forget, err := client.KeepLocalToken(u.Host, "of-this-port")
	if err != nil {
		t.Fatal(err)
	}
	file := client.LocalTokenFile(u)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if s := sent(srv.URL); s != "Bearer of-this-port" {
		t.Errorf("sent %q", s)
	}
	if s := sent(strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)); s != "Bearer of-this-port" {
		t.Errorf("to localhost: %q", s)
	}
	if s := sent(srv.URL, client.WithToken("mine")); s != "Bearer mine" {
		t.Errorf("its own token gives way to %q", s)
	}
	for _, elsewhere := range []string{"http://example.com:" + u.Port(), "http://192.0.2.1:" + u.Port(), "http://localhost.example.com:" + u.Port()} {
		other, err := url.Parse(elsewhere)
		if err != nil {
			t.Fatal(err)
		}
		if f := client.LocalTokenFile(other); f != "" {
			t.Errorf("%s has the file %s", elsewhere, f)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if s := sent(srv.URL); s != "" {
		t.Errorf("a token that others can read: %q", s)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := forget(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := client.KeepLocalToken(u.Host, "of-another"); err != nil {
		t.Fatal(err)
	}
	if err := forget(); err != nil || sent(srv.URL) != "Bearer of-another" {
		t.Errorf("a fleet that ended took the token of the next one: %v", err)
	}
}
