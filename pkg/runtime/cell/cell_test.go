package cell

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

func TestCellLifecycle(t *testing.T) { runtimetest.Lifecycle(t, suiteConfig(policy.Cell)) }

func TestCellContract(t *testing.T) { runtimetest.Contract(t, suiteConfig(policy.Cell)) }

func TestCellFields(t *testing.T) { runtimetest.Fields(t, suiteConfig(policy.Cell)) }

func TestCellContention(t *testing.T) { runtimetest.Contention(t, suiteConfig(policy.Cell)) }

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
	if n := r.cells.groups.Outstanding(); n > 0 {
		left = append(left, fmt.Sprintf("%d control groups on loan", n))
	}
	r.cells.mu.Lock()
	defer r.cells.mu.Unlock()
	if n := len(r.cells.slots); n > 0 {
		left = append(left, fmt.Sprintf("%d slots", n))
	}
	for own := range int64(2) {
		for _, l := range r.cells.groups.Unused(own) {
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

// TestCellPreloadsWhatTheImageNames checks that an image may name modules to import ahead for its jobs. A
// missing module does not prevent the others.
func TestCellPreloadsWhatTheImageNames(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { c.CellWarm = 0 })
	loaded := pySnippet("import sys\nprint([m in sys.modules for m in ('colorsys', 'wave', 'heapq')])")
	if rep := cellJob(t, r, loaded, nil); rep.Stdout.Text != "[False, False, True]\n" {
		t.Errorf("by default: %q", rep.Stdout.Text)
	}
	img, err := r.cells.cfg.Images.Get(t.Context(), testenv.Image)
	if err != nil {
		t.Fatal(err)
	}
	img.Env = append(slices.Clone(img.Env), guest.PreloadVariable+"=colorsys, no_such_module,wave")
	key := cellKeys["python"]
	key.Tenant = "with preloads"
	s, err := r.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rep, err := s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: loaded, Plan: cellPlan(nil)})
	if err != nil || rep.Stdout.Text != "[True, True, True]\n" {
		t.Errorf("with preloads: %+v, %v", rep, err)
	}
}

// TestCellWaitingLeavesNothing checks that a program in an interpreter that has waited prints the same as in
// a slot made on demand.
func TestCellWaitingLeavesNothing(t *testing.T) {
	snippet := pySnippet(`
import sys, linecache, threading, gc
print([n for n in sorted(globals()) if not n.startswith('_')], sys.argv, sys.modules['__main__'].__dict__ is globals())
print([line.strip() for line in linecache.getlines('<job>')][:2], threading.active_count(), gc.isenabled())
raise ValueError("no")
`)
	said := func(warm int) *runtime.Report {
		r := newRuntime(t, func(c *Settings) { c.CellWarm = warm })
		if warm > 0 {
			cellJob(t, r, pySnippet("pass"), nil)
			key := slotKeyOf(t, r, guest.ZygotePrograms)
			for deadline := time.Now().Add(20 * time.Second); r.cells.pool.Ready(key) == 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("no slot is made ahead of demand")
				}
			}
		}
		return cellJob(t, r, snippet, nil)
	}
	fresh, waited := said(0), said(2)
	if fresh.Outcome != job.Exception || fresh.Stdout.Text != waited.Stdout.Text || fresh.Stderr.Text != waited.Stderr.Text ||
		fresh.Exception.Traceback != waited.Exception.Traceback || len(waited.Variables) != len(fresh.Variables) {
		t.Errorf("made on demand: %q %q\nwaited: %q %q", fresh.Stdout.Text, fresh.Stderr.Text, waited.Stdout.Text, waited.Stderr.Text)
	}
}

var cellKeys = map[string]runtime.Key{
	"python":  {Tenant: "test", Image: testenv.Image, Isolation: policy.Cell, Kind: "python"},
	"command": {Tenant: "test", Image: testenv.Image, Isolation: policy.Cell, Kind: "command"},
}

// TestCellPythonOneAfterAnother checks that the end of a job is reported even if nothing else happens in its
// cell. In about one of a hundred runs, a death just before the zygote waited for its next message was
// noticed only with that message.
func TestCellPythonOneAfterAnother(t *testing.T) {
	r := newRuntime(t, func(c *Settings) { c.CellWarm = 8 })
	for range 600 {
		rep := cellJob(t, r, pySnippet("pass"), func(p *policy.Policy) { p.Wall = job.Duration(10 * time.Second) })
		if rep.Outcome != job.Succeeded {
			t.Fatalf("%s: %s", rep.Outcome, rep.Message)
		}
	}
}

func TestCellStarts(t *testing.T) { runtimetest.Starts(t, suiteConfig(policy.Cell)) }
