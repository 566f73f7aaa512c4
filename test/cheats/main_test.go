package cheats

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/internal/worker/grade"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd"
)

func TestMain(m *testing.M) {
	// Most attempts wait for processes or limits; -parallel overrides it.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testenv.Main(m)
}

// parts are the parts of the corpora that are tried at each isolation. The grading code is the same
// at all of them, and a container costs more than the rest of an attempt.
var parts = map[policy.Isolation]*testenv.Part{
	policy.Cell: testenv.NewPart("cell", 3), policy.Task: testenv.NewPart("task", 12), policy.GVisor: testenv.NewPart("gvisor", 24),
}

// preloadedPart is the part for forks with preloaded imports, at isolation cell.
var preloadedPart = testenv.NewPart("preloaded", 16)

// make cheats runs everything.
func TestWholeTarget(t *testing.T) { testenv.TakesAll(t, "cheats") }

// part returns the part of a corpus for the fleet's isolation.
func part[T any](t *testing.T, f *fleet, corpus []T) []T {
	t.Helper()
	if f.imports != "" {
		return testenv.Of(t, preloadedPart, corpus)
	}
	return testenv.Of(t, parts[f.isolation], corpus)
}

// isolations are the isolations for solutions.
var isolations = []policy.Isolation{policy.Cell, policy.Task, policy.GVisor}

// preloaded is a module that is worth preloading for both sides.
const preloaded = "asyncio"

// eachIsolation runs f on a real runtime, once for every isolation, and once with both sides forked
// from a preloaded interpreter.
func eachIsolation(t *testing.T, f func(*testing.T, *fleet)) {
	for _, isolation := range isolations {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel() // while one waits for its last attempts, another begins
			f(t, newFleet(t, isolation))
		})
	}
	t.Run("preloaded", func(t *testing.T) {
		t.Parallel()
		fl := newFleet(t, policy.Cell)
		fl.imports = preloaded
		fl.warm(t)
		f(t, fl)
	})
}

// warm grades until a solution and its check are forked from a preloaded interpreter.
func (f *fleet) warm(t *testing.T) {
	t.Helper()
	const ahead = "'preload' in sys.modules['_frozen_importlib']._find_and_load.__globals__.get('__file__', '')"
	tests := &job.Tests{Code: "import sys\ndef f(): return " + ahead, Function: "f", Check: "import sys\ndef test_both(): assert f() and " + ahead}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if f.grade(t, tests, nil).Outcome == job.Succeeded {
			return
		}
	}
	t.Fatal("nothing is forked from an interpreter with imports")
}

// fleet is a runtime that grades like a worker.
type fleet struct {
	rt        *containerd.Runtime
	isolation policy.Isolation
	imports   string // module that both sides find preloaded
}

func newFleet(t *testing.T, isolation policy.Isolation) *fleet {
	t.Helper()
	env := testenv.Containerd(t)
	cfg := containerd.DefaultConfig()
	cfg.Address, cfg.Namespace, cfg.Guest, cfg.WorkerID = env.Address, env.Namespace, testenv.Guest(t), "test"
	cfg.StateDir = filepath.Join(t.TempDir(), "state")
	cfg.Runsc = testenv.Runsc(t)
	rt, err := containerd.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &fleet{rt: rt, isolation: isolation}
}

func (f *fleet) acquire(ctx context.Context, kind, code string) (runtime.Slot, error) {
	p := policy.Default()
	return f.rt.Acquire(ctx, runtime.Key{
		Tenant: "test", Image: testenv.Image, Isolation: f.isolation, Kind: kind, Imports: strings.TrimSpace(f.imports + " " + runtime.ImportsOf(code, &p)), CPU: p.CPU,
	})
}

// plan returns the default policy, edited.
func (f *fleet) plan(t *testing.T, edit func(*policy.Policy)) *policy.Plan {
	t.Helper()
	p := policy.Default()
	p.Isolation = f.isolation
	if edit != nil {
		edit(&p)
	}
	plan, err := p.Plan(f.rt.Host())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// grade grades as a worker does.
func (f *fleet) grade(t *testing.T, tests *job.Tests, edit func(*policy.Policy)) *runtime.Report {
	t.Helper()
	spec := job.Spec{Program: job.Program{Tests: tests}}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	run := func() (*runtime.Report, error) {
		return grade.Run(t.Context(), grade.Config{
			Tests:   tests,
			Checker: builtOf(t, tests.CheckerCode()),
			Attempt: runtime.Attempt{Job: job.NewID(), Lease: 1, Plan: f.plan(t, edit), Deadline: time.Now().Add(time.Minute)},
			Acquire: f.acquire,
		})
	}
	rep, err := run()
	for range 3 { // a fleet would retry on another worker
		if !errors.Is(err, runtime.ErrStarved) {
			break
		}
		rep, err = run()
	}
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// builtOf returns the program of a python checker, as a worker makes it.
func builtOf(t *testing.T, c *job.Code) *grade.Built {
	t.Helper()
	if c == nil {
		return nil
	}
	l, err := language.Find(c.Language)
	if err != nil || l.Compile != nil {
		t.Fatalf("%s: %v, or it is to be compiled", c.Language, err)
	}
	argv := func(job.Size) []string { return []string{"python3", l.File} }
	return &grade.Built{
		Solution: grade.Solution{Argv: argv, Dir: language.Dir, Missing: func(*runtime.Report) error { return nil }},
		Files:    []runtime.File{{Path: language.Dir + "/" + l.File, Data: []byte(c.Source)}},
	}
}
