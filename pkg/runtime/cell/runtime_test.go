package cell

import (
	"flag"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	// Programs wait for a limit; -parallel overrides it.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testenv.Main(m)
}

// Settings are the fields of a containerd.Config that tests of cells set.
type Settings struct {
	CellWarm, CellJobs int
	CellAge, WarmIdle  time.Duration
	PreloadMemory      job.Size
	Index              environment.Index
	Environments       string
}

// OpenRuntime opens a runtime of this test's own, and returns its cells, too. Package containerd,
// which has it, imports this one: see open_test.go.
var OpenRuntime func(testing.TB, Settings) (Whole, *Cells)

// Whole is the interface of a runtime of package containerd.
type Whole interface {
	runtime.Runtime
	runtime.ImageLister
	runtime.Prover
}

// Runtime is one of package containerd, and its cells.
type Runtime struct {
	Whole
	cells *Cells
}

func newRuntime(t testing.TB, edit func(*Settings)) *Runtime {
	t.Helper()
	var with Settings
	if edit != nil {
		edit(&with)
	}
	r := &Runtime{}
	r.Whole, r.cells = OpenRuntime(t, with)
	runtimetest.CloseAtEnd(t, r)
	return r
}

func suiteConfig(isolation policy.Isolation) runtimetest.Config {
	return runtimetest.Config{
		New:       func(t *testing.T) runtime.Runtime { return newRuntime(t, nil) },
		Image:     testenv.Image,
		Isolation: isolation,
	}
}

// eventually waits until ok, for a minute at most.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}
