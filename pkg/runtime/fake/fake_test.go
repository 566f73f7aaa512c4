package fake

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(make func() *Runtime) runtimetest.Config {
	return runtimetest.Config{
		Image: "python",
		New: func(t *testing.T) runtime.Runtime {
			r := make()
			t.Cleanup(func() {
				if n := r.Live(); n != 0 {
					t.Errorf("%d slots were never closed", n)
				}
			})
			return r
		},
		Plan: func(_ *testing.T, _ policy.Host, isolation policy.Isolation, edit func(*policy.Policy)) *policy.Plan {
			p := &policy.Plan{Enforcement: []job.Enforcement{{Capability: "memory", Requested: "256Mi", Applied: "256Mi", Mechanism: "cgroup", Level: job.LevelKernel}}}
			p.Policy.Isolation = isolation
			edit(&p.Policy)
			return p
		},
	}
}

func TestSuite(t *testing.T) {
	cfg := config(func() *Runtime { return New(nil) })
	t.Run("lifecycle", func(t *testing.T) { runtimetest.Lifecycle(t, cfg) })
	t.Run("contract", func(t *testing.T) { runtimetest.Contract(t, cfg) })
}

func TestNoopSuite(t *testing.T) { runtimetest.Lifecycle(t, config(Noop)) }

func TestNothingIsClaimedToBeEnforced(t *testing.T) {
	for name, r := range map[string]*Runtime{"script": New(nil), "noop": Noop()} {
		cfg := config(nil)
		slot, err := r.Acquire(t.Context(), runtime.Key{Image: "python"})
		if err != nil {
			t.Fatal(err)
		}
		defer slot.Close()
		plan := cfg.Plan(t, r.Host(), policy.Cell, func(*policy.Policy) {})
		rep, err := slot.Run(t.Context(), runtime.Attempt{Plan: plan})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range rep.Enforcement {
			if e.Level != job.LevelNone || e.Applied != "" {
				t.Errorf("%s: claims to enforce %+v", name, e)
			}
		}
		if plan.Enforcement[0].Level != job.LevelKernel {
			t.Errorf("%s: wrote into the shared plan", name)
		}
	}
}

func TestParseScript(t *testing.T) {
	python := func(code string) job.Program { return job.Program{Python: &job.Python{Code: code}} }
	command := func(argv ...string) job.Program { return job.Program{Command: &job.Command{Argv: argv}} }
	for _, c := range []struct {
		p    job.Program
		want script
	}{
		{python("print(1)"), nil},
		{python("x = 1\n# fake: sleep=5ms exit=2\ny = 2 # fake: output=z"), script{{"sleep", "5ms"}, {"exit", "2"}, {"output", "z"}}},
		{python(`# fake: output="a b\n" exit=1`), script{{"output", "a b\n"}, {"exit", "1"}}},
		{command("fake", "exit=1"), script{{"exit", "1"}}},
		{command("/bin/true"), nil},
	} {
		got, err := parse(c.p)
		if err != nil || !cmp.Equal(got, c.want, cmp.AllowUnexported(word{})) {
			t.Errorf("parse(%+v) = %v, %v, want %v", c.p, got, err, c.want)
		}
	}
	if _, err := parse(python("# fake: nonsense")); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("nonsense: %v", err)
	}
}
