package dev_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
)

// startPostgres starts a server that stops at the end of the test at the latest.
func startPostgres(t *testing.T, cfg dev.PostgresConfig) *dev.Postgres {
	t.Helper()
	testenv.Needs(t, "Postgres")
	p, err := dev.StartPostgres(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(stopContext(t)) })
	return p
}

func databases(t *testing.T, p *dev.Postgres) []string {
	t.Helper()
	names, err := p.Databases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestPostgresKeepsItsDataAcrossRestarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pg")
	p := startPostgres(t, dev.PostgresConfig{Dir: dir})
	if uid := uidOf(t, p.PID()); uid == 0 {
		t.Error("the server runs as root")
	}
	dsn, err := p.CreateDatabase(t.Context(), `odd "name"`)
	if err != nil {
		t.Fatal(err)
	}
	if u, err := url.Parse(dsn); err != nil || u.Path != `/odd "name"` {
		t.Errorf("DSN %q: path %q, %v", dsn, u.Path, err)
	}
	if _, err := p.CreateDatabase(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	if err := p.DropDatabase(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second stop does nothing
		if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if alive(p.PID()) {
		t.Error("the server runs after Stop")
	}

	again := startPostgres(t, dev.PostgresConfig{Dir: dir})
	if got := databases(t, again); !slices.Contains(got, "assay") || !strings.Contains(strings.Join(got, " "), `odd "name"`) {
		t.Errorf("databases after a restart: %q", got)
	}
	if again.DSN() != p.DSN() {
		t.Errorf("the DSN changed from %s to %s", p.DSN(), again.DSN())
	}
}

// TestPostgresDiesWithItsParent checks that the server ends with a killed parent, and that the next start recovers
// committed data.
func TestPostgresDiesWithItsParent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pg")
	h := startHelper(t, "postgres", dir)
	if _, err := dev.StartPostgres(t.Context(), dev.PostgresConfig{Dir: dir}); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d", h.childPID)) {
		t.Errorf("second server on the same cluster: %v; want an error that names process %d", err, h.childPID)
	}
	h.kill()
	eventually(t, "the server is gone", func() bool { return !alive(h.childPID) })
	startPostgres(t, dev.PostgresConfig{Dir: dir})
}

// TestPostgresTakesOverAStalePIDFile checks a start after a crash, when the pid file names an unrelated process.
func TestPostgresTakesOverAStalePIDFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pg")
	p := startPostgres(t, dev.PostgresConfig{Dir: dir})
	content, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), "\n")
	stale := fmt.Sprintf("%d\n%s", os.Getpid(), rest)
	if err := os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	startPostgres(t, dev.PostgresConfig{Dir: dir})
}

// TestPostgresIgnoresHalfACluster checks that an interrupted initdb leaves a partial cluster only outside the final
// directory.
func TestPostgresIgnoresHalfACluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	startPostgres(t, dev.PostgresConfig{Dir: dir})
}

func TestPostgresSocketPathTooLong(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, dev.PostgresConfig{Dir: longDir(t)})
	u, err := url.Parse(p.DSN())
	if err != nil {
		t.Fatal(err)
	}
	sockets := u.Query().Get("host")
	if info, err := os.Stat(sockets); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("socket directory %s: %v, %v; want mode 0700", sockets, info, err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(sockets); !os.IsNotExist(err) {
		t.Errorf("the socket directory %s is left behind: %v", sockets, err)
	}
}

func TestPostgresErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		cfg   func(dir string) dev.PostgresConfig
		wants []string
	}{
		{
			"no directory",
			func(string) dev.PostgresConfig { return dev.PostgresConfig{} },
			[]string{"directory"},
		},
		{
			"no server there",
			func(dir string) dev.PostgresConfig { return dev.PostgresConfig{Dir: dir, BinDir: "/nonexistent"} },
			[]string{"/nonexistent", "make setup"},
		},
		{
			"bad setting: the server's own words",
			func(dir string) dev.PostgresConfig {
				return dev.PostgresConfig{Dir: dir, Settings: map[string]string{"no_such_setting": "1"}}
			},
			[]string{"no_such_setting", "postgres.log"},
		},
		{
			"cluster of another version",
			func(dir string) dev.PostgresConfig {
				data := filepath.Join(dir, "data")
				if err := os.Mkdir(data, 0o700); err != nil {
					t.Error(err)
				}
				if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
					t.Error(err)
				}
				return dev.PostgresConfig{Dir: dir}
			},
			[]string{"version 9", "pg_upgrade"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			testenv.Needs(t, "Postgres")
			p, err := dev.StartPostgres(t.Context(), test.cfg(t.TempDir()))
			if err == nil {
				_ = p.Stop(stopContext(t))
				t.Fatal("it started")
			}
			for _, want := range test.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not mention %q: %v", want, err)
				}
			}
		})
	}
}
