package containerd

import (
	"fmt"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

func TestCellLifecycle(t *testing.T) { runtimetest.Lifecycle(t, suiteConfig(policy.Cell)) }

func TestCellContract(t *testing.T) { runtimetest.Contract(t, suiteConfig(policy.Cell)) }

func TestCellPrograms(t *testing.T) {
	var r *Runtime
	cfg := runtimetest.ProgramsConfig{Config: suiteConfig(policy.Cell), Leftovers: func() []string { return cellLeftovers(t, r) }}
	cfg.New = func(t *testing.T) runtime.Runtime {
		r = newRuntime(t, nil)
		return r
	}
	runtimetest.Programs(t, cfg)
}

// cellLeftovers lists what jobs of cells there still is on the host.
func cellLeftovers(t *testing.T, r *Runtime) (left []string) {
	t.Helper()
	if n := r.cells.groups.outstanding(); n > 0 {
		left = append(left, fmt.Sprintf("%d control groups on loan", n))
	}
	r.cells.mu.Lock()
	defer r.cells.mu.Unlock()
	if n := len(r.cells.slots); n > 0 {
		left = append(left, fmt.Sprintf("%d slots", n))
	}
	for _, g := range r.cells.groups.free {
		for _, l := range g {
			pids, err := l.Pids()
			if err != nil {
				t.Fatal(err)
			}
			if len(pids) > 0 {
				left = append(left, fmt.Sprintf("processes %v in %s", pids, l.Path()))
			}
		}
	}
	return left
}

var cellKeys = map[string]runtime.Key{
	"python":  {Tenant: "test", Image: testenv.Image, Isolation: policy.Cell, Kind: "python"},
	"command": {Tenant: "test", Image: testenv.Image, Isolation: policy.Cell, Kind: "command"},
}

// The end of one job is told though nothing happens in the cell after it. A death
// just before the zygote began to wait for its next message went unnoticed once,
// of a hundred or so, until there was one.
func TestCellPythonOneAfterAnother(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.CellWarm = 8 })
	for range 600 {
		rep := cellJob(t, r, pySnippet("pass"), func(p *policy.Policy) { p.Wall = job.Duration(10 * time.Second) })
		if rep.Outcome != job.Succeeded {
			t.Fatalf("%s: %s", rep.Outcome, rep.Message)
		}
	}
}
