package containerd

import (
	"flag"
	"testing"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// truthRuns is 1 for every day; -truth.runs 100 shows that no row is flaky.
var truthRuns = flag.Int("truth.runs", 1, "how often each row of the truth table is run")

func TestTaskTruth(t *testing.T) {
	var r *Runtime
	cfg := runtimetest.ProgramsConfig{Config: suiteConfig(policy.Task), Leftovers: func() []string { return leftovers(t, r) }}
	cfg.New = func(t *testing.T) runtime.Runtime {
		r = newRuntime(t, nil)
		return r
	}
	runtimetest.Truth(t, cfg, *truthRuns)
}

func TestTaskPipes(t *testing.T) {
	var r *Runtime
	cfg := runtimetest.ProgramsConfig{Config: suiteConfig(policy.Task), Leftovers: func() []string { return leftovers(t, r) }}
	cfg.New = func(t *testing.T) runtime.Runtime {
		r = newRuntime(t, nil)
		return r
	}
	runtimetest.Pipes(t, cfg)
}
