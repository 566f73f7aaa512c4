package containerd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

func TestMain(m *testing.M) {
	if config, ok := os.LookupEnv(victimEnv); ok {
		fmt.Fprintln(os.Stderr, victim(config))
		os.Exit(1)
	}
	testenv.Main(m)
}

// guestBinary builds the guest, once for this test binary, and keeps it beside
// what else the tests cache. Where there is no compiler, ASSAY_GUEST says where
// it is.
var guestBinary = sync.OnceValues(func() (string, error) {
	if file := os.Getenv("ASSAY_GUEST"); file != "" {
		return file, nil
	}
	dir, err := filepath.Abs("../../../.cache/testenv")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "guest")
	fresh := fmt.Sprintf("%s.%d", file, os.Getpid())
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", fresh, "github.com/assay-run/assay/cmd/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the guest: %w\n%s", err, out)
	}
	return file, os.Rename(fresh, file)
})

// testConfig is a runtime of this test's own on the shared containerd.
func testConfig(t testing.TB) Config {
	t.Helper()
	env := testenv.Containerd(t)
	guest, err := guestBinary()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Address: env.Address, Namespace: env.Namespace, StateDir: filepath.Join(t.TempDir(), "state"),
		Guest: guest, WorkerID: "test",
	}
}

func newRuntime(t testing.TB, edit func(*Config)) *Runtime {
	t.Helper()
	cfg := testConfig(t)
	if edit != nil {
		edit(&cfg)
	}
	r, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

func plan(t testing.TB, host policy.Host, isolation policy.Isolation, edit func(*policy.Policy)) *policy.Plan {
	t.Helper()
	p := policy.Default()
	p.Isolation = isolation
	if edit != nil {
		edit(&p)
	}
	plan, err := p.Plan(host)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

var taskKey = runtime.Key{Tenant: "test", Image: testenv.Image, Isolation: policy.Task, Kind: "command"}
