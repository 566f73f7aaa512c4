package containerd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

func suiteConfig(isolation policy.Isolation) runtimetest.Config {
	return runtimetest.Config{
		New:       func(t *testing.T) runtime.Runtime { return newRuntime(t, nil) },
		Image:     testenv.Image,
		Isolation: isolation,
	}
}

// A container costs more than all the rest of a program, and what programs meet in it is mostly the same at cell, where all of
// them run. `make test-runtime` runs all of them everywhere.
var (
	taskPart   = testenv.NewPart("task", 6)
	gvisorPart = testenv.NewPart("gvisor", 24)
)

// inParts is cfg with a part of its programs with each commit.
func inParts(cfg runtimetest.Config, p *testenv.Part) runtimetest.Config {
	cfg.Part = func(t *testing.T, n int) []int {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return testenv.Of(t, p, all)
	}
	return cfg
}

func TestTaskLifecycle(t *testing.T) { runtimetest.Lifecycle(t, suiteConfig(policy.Task)) }

func TestTaskContract(t *testing.T) { runtimetest.Contract(t, suiteConfig(policy.Task)) }

func TestTaskFields(t *testing.T) { runtimetest.Fields(t, suiteConfig(policy.Task)) }

func TestTaskContention(t *testing.T) { runtimetest.Contention(t, suiteConfig(policy.Task)) }

func TestTaskPrograms(t *testing.T) {
	var r *Runtime
	cfg := runtimetest.ProgramsConfig{Config: inParts(suiteConfig(policy.Task), taskPart), Leftovers: func() []string { return leftovers(t, r) }}
	cfg.New = func(t *testing.T) runtime.Runtime {
		r = newRuntime(t, nil)
		return r
	}
	runtimetest.Programs(t, cfg)
}

// leftovers lists what slots of r there are on the host.
func leftovers(t *testing.T, r *Runtime) []string {
	t.Helper()
	left, err := r.engine.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := filepath.Glob(cgroup.DefaultRoot + "/*/assay-" + r.instance + "/*/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	left = append(left, groups...)
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := mountsBelow(table, filepath.Join(r.dir, "slots"))
	if err != nil {
		t.Fatal(err)
	}
	return append(left, mounts...)
}

func TestTaskStarts(t *testing.T) { runtimetest.Starts(t, inParts(suiteConfig(policy.Task), taskPart)) }
