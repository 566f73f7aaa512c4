package containerd

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/egress"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	if config, ok := os.LookupEnv(victimEnv); ok {
		fmt.Fprintln(os.Stderr, victim(config))
		os.Exit(1)
	}
	// Programs wait for a limit, and environments for their builds; -parallel overrides it.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testenv.Main(m)
}

// testConfig is a runtime of this test's own on the shared containerd.
func testConfig(t testing.TB) Config {
	t.Helper()
	env := testenv.Containerd(t)
	return Config{
		Address: env.Address, Namespace: env.Namespace, StateDir: filepath.Join(t.TempDir(), "state"),
		Guest: testenv.Guest(t), WorkerID: "test",
		Egress: egress.Operator{Private: []string{"127.0.0.0/8:*"}}, // where the servers of tests are
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
	runtimetest.CloseAtEnd(t, r)
	return r
}

var taskKey = runtime.Key{Tenant: "test", Image: testenv.Image, Isolation: policy.Task, Kind: "command"}
