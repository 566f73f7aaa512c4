package containerd

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

func withGVisor(t *testing.T) func(*Config) {
	runsc := testenv.Runsc(t)
	return func(c *Config) { c.Runsc = runsc }
}

func gvisorConfig() runtimetest.Config {
	cfg := inParts(suiteConfig(policy.GVisor), gvisorPart)
	cfg.New = func(t *testing.T) runtime.Runtime { return newRuntime(t, withGVisor(t)) }
	return cfg
}

// TestRunscSaysItsVersion checks that the build of scripts/runsc reports its version, so that its known
// vulnerabilities can be found.
func TestRunscSaysItsVersion(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), testenv.Runsc(t), "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "runsc version v0.0.0-20") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestGVisorLifecycle(t *testing.T) { runtimetest.Lifecycle(t, gvisorConfig()) }

func TestGVisorContract(t *testing.T) { runtimetest.Contract(t, gvisorConfig()) }

func TestGVisorStarts(t *testing.T) { runtimetest.Starts(t, gvisorConfig()) }

func TestGVisorFields(t *testing.T) { runtimetest.Fields(t, gvisorConfig()) }

func TestGVisorContention(t *testing.T) { runtimetest.Contention(t, gvisorConfig()) }

func TestGVisorPrograms(t *testing.T) {
	var r *Runtime
	cfg := runtimetest.ProgramsConfig{Config: gvisorConfig(), Leftovers: func() []string { return leftovers(t, r) }}
	cfg.New = func(t *testing.T) runtime.Runtime {
		r = newRuntime(t, withGVisor(t))
		return r
	}
	runtimetest.Programs(t, cfg)
}

func TestGVisorPipes(t *testing.T) {
	var r *Runtime
	cfg := runtimetest.ProgramsConfig{Config: gvisorConfig(), Leftovers: func() []string { return leftovers(t, r) }}
	cfg.New = func(t *testing.T) runtime.Runtime {
		r = newRuntime(t, withGVisor(t))
		return r
	}
	runtimetest.Pipes(t, cfg)
}
