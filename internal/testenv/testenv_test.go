package testenv_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPostgresGivesEachTestADatabase(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 3 {
		dsn := testenv.Postgres(t)
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if seen[u.Path] {
			t.Errorf("database %s was handed out twice", u.Path)
		}
		seen[u.Path] = true
		socket := filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port"))
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

func TestNATSServersAreSeparate(t *testing.T) {
	t.Parallel()
	if a, b := testenv.NATS(t), testenv.NATS(t); a == b {
		t.Errorf("two servers share %s", a)
	}
}

func TestContainerdHasTheImage(t *testing.T) {
	t.Parallel()
	env := testenv.Containerd(t)
	ok, err := env.Daemon.HasImage(t.Context(), env.Namespace, env.Image)
	if err != nil || !ok {
		t.Fatalf("HasImage(%s) = %v, %v", env.Image, ok, err)
	}
	if again := testenv.Containerd(t); again != env {
		t.Error("a second call started a second containerd")
	}
}

func TestRepoRoot(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join(testenv.RepoRoot(t), "go.mod")); err != nil {
		t.Error(err)
	}
}
