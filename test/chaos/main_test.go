package chaos

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-run/assay/internal/testenv"
)

// The long version. The defaults are the selection that every change must pass, beside the tests of
// other packages, where durations mean little.
var (
	stormJobs   = flag.Int("chaos.jobs", 1500, "jobs of TestChaos")
	rollingJobs = flag.Int("chaos.rolling", 1000, "jobs of row 26, the rolling restart")
	floodJobs   = flag.Int("chaos.flood", 3000, "jobs of the flooding tenant of row 32")
	floodFactor = flag.Float64("chaos.flood.factor", 10, "how many times as long as on an idle fleet another tenant may wait there")
	downFor     = flag.Duration("chaos.down", 5*time.Second, "how long Postgres is away in row 16")
	losses      = flag.Int("chaos.losses", 1, "how often rows 38 to 40 lose what they lose")
	outageCount = flag.Int("chaos.outages", 1, "how often NATS is away in row 41")
	outageFor   = flag.Duration("chaos.outage", 6*time.Second, "for how long")
	longLease   = flag.Duration("chaos.lease", 0, "leases of rows that kill workers or what they talk to; 0: as short as the row needs")
	seed        = flag.Uint64("chaos.seed", 1, "of TestChaos's choices")
)

func TestMain(m *testing.M) {
	if cfg := os.Getenv(nodeVariable); cfg != "" {
		serveNode(cfg) // this process is a NATS server for a test to break
	}
	flag.Parse()
	// A fleet mostly waits for a lease to end: run more fleets than cores.
	_ = flag.Set("test.parallel", "4")
	// A NATS server that is stopped while a dispatcher requests a stream creates the stream's store
	// after it has closed all stores, and leaves the store's loops running. Only a test stops a
	// server and lives on.
	const store = "github.com/nats-io/nats-server/v2/server.(*"
	testenv.Main(m, goleak.IgnoreAnyFunction(store+"fileStore).flushStreamStateLoop"),
		goleak.IgnoreAnyFunction(store+"msgBlock).flushLoop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"), goleak.IgnoreAnyFunction(store+"fileStore).syncBlocks"))
}

// atLeast returns a short lease, so that a row waits little, or the production-like lease of
// -chaos.lease.
func atLeast(short time.Duration) time.Duration { return max(short, *longLease) }

var programs struct {
	once sync.Once
	dir  string
	err  error
}

// built returns the directory of the programs, built from this source. They accept a setting for
// tests only: the number of failures of an innocent job.
func built(t *testing.T) string {
	t.Helper()
	testenv.Needs(t, "the programs of cmd")
	programs.once.Do(func() {
		root := testenv.RepoRoot(t)
		programs.dir = filepath.Join(root, ".cache", "testenv", "chaos-bin")
		if programs.err = os.MkdirAll(programs.dir, 0o755); programs.err != nil {
			return
		}
		build := exec.Command("go", "build", "-tags=faults", "-o", programs.dir, "./cmd/dispatcher", "./cmd/worker", "./cmd/guest")
		build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			programs.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return programs.dir
}

// eventually fails the test unless ok is true within a generous time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	within(t, 90*time.Second, what, ok)
}

func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
