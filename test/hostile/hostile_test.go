package hostile

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// The parts of the corpus for a usual run. At task each program gets a new sandbox. At gvisor the
// kernel is the same for all, and a sandbox costs more than the rest of an attack. Only python
// programs can be forked from an interpreter.
var (
	cellPart      = testenv.NewPart("cell", 3)
	taskPart      = testenv.NewPart("task", 8)
	gvisorPart    = testenv.NewPart("gvisor", 24)
	preloadedPart = testenv.NewPart("preloaded", 8)
	compilersPart = testenv.NewPart("compilers", 8)
)

func TestMain(m *testing.M) {
	// Most attacks wait until a limit stops them; -parallel overrides it.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testenv.Main(m)
}

// make hostile runs everything.
func TestWholeTarget(t *testing.T) { testenv.TakesAll(t, "hostile") }

// TestHostile runs the corpus at every isolation of this host.
func TestHostile(t *testing.T) {
	rt, stateDir := newRuntime(t)
	corpus := load(t)
	isolations := rt.Host().Isolations
	for _, must := range []policy.Isolation{policy.Cell, policy.Task, policy.GVisor} {
		if !slices.Contains(isolations, must) {
			t.Fatalf("isolation %s is not available here: %v", must, rt.Host().Missing)
		}
	}
	builder := &arena{rt: rt, isolation: policy.Task}
	builder.compile(t, corpus)
	h := newHost(t, rt, stateDir)
	for _, isolation := range isolations {
		t.Run(string(isolation), func(t *testing.T) {
			a := &arena{rt: rt, isolation: isolation, host: h, binaries: builder.binaries}
			a.canary(t)
			a.canaryOf(t, innocent)
			h.settle(t)
			a.all(t, part(t, isolation, corpus))
		})
	}
}

// TestHostilePreloaded runs the python programs once more, forked from a preloaded interpreter.
func TestHostilePreloaded(t *testing.T) {
	rt, stateDir := newRuntime(t)
	a := &arena{rt: rt, isolation: policy.Cell, host: newHost(t, rt, stateDir), imports: preloadedModule}
	quiet := a.plan(t, &Attack{Policy: map[string]any{"wall": "30s"}})
	for _, tenant := range []string{attacker, innocent} {
		within(t, "no program is forked with its imports", func() string {
			const code = "import sys; print('preload' in sys.modules['_frozen_importlib']._find_and_load.__globals__.get('__file__', ''))"
			report, _, err := a.try(t.Context(), tenant, job.Program{Python: &job.Python{Code: code}}, quiet, nil)
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSuffix(report.Stdout.Text, "True\n")
		})
		a.canaryOf(t, tenant)
	}
	a.host.settle(t)
	var python []*Attack
	for _, c := range load(t) {
		if c.Lang == "py" {
			python = append(python, c)
		}
	}
	a.all(t, testenv.Of(t, preloadedPart, python))
}

// part returns the items of a corpus for this run at an isolation.
func part[T any](t *testing.T, isolation policy.Isolation, corpus []T) []T {
	t.Helper()
	p := gvisorPart // and of virtual machines
	switch isolation {
	case policy.Cell:
		p = cellPart
	case policy.Task:
		p = taskPart
	}
	return testenv.Of(t, p, corpus)
}

// all runs the attacks, a few at a time, and checks the host after each subject.
func (a *arena) all(t *testing.T, corpus []*Attack) {
	bySubject := map[string][]*Attack{}
	var subjects []string
	for _, c := range corpus {
		if bySubject[c.Subject] == nil {
			subjects = append(subjects, c.Subject)
		}
		bySubject[c.Subject] = append(bySubject[c.Subject], c)
	}
	for _, subject := range subjects {
		t.Run(subject, func(t *testing.T) {
			end := func() {}
			if subject == "exhaustion" {
				end = a.neighbours(t)
			}
			a.run(t, bySubject[subject])
			end()
			a.host.clean(t)
		})
	}
}

// run returns when the last of these attacks is over.
func (a *arena) run(t *testing.T, attacks []*Attack) {
	t.Run("programs", func(t *testing.T) {
		for _, c := range attacks {
			t.Run(c.Name, func(t *testing.T) {
				if !c.Alone {
					t.Parallel()
				}
				a.attack(t, c)
			})
		}
	})
}
