package containerd

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// Nothing but door.go names the words that have a process become a program.
func TestOneDoor(t *testing.T) {
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, p := range packages {
		for name, file := range p.Files {
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				of, ok := s.X.(*ast.Ident)
				if !ok || of.Name != "guest" || s.Sel.Name != "Run" && s.Sel.Name != "GateGo" {
					return true
				}
				if said[s.Sel.Name] = true; name != "door.go" {
					t.Errorf("%s says guest.%s: programs are started in door.go", name, s.Sel.Name)
				}
				return true
			})
		}
	}
	if len(said) != 2 {
		t.Errorf("only %v is said anywhere: does this test look for the right words?", said)
	}
}

// A process that is not in the job's group is told nothing.
func TestNobodyIsAdmittedFromOutside(t *testing.T) {
	h, err := cgroup.Detect(cgroup.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	group, err := h.Create("/assay-door-test")
	if err != nil {
		t.Fatal(err)
	}
	defer group.Remove(t.Context())
	stranger := exec.Command("sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer stranger.Wait()
	defer stranger.Process.Kill()
	told, where := 0, &place{group: group}
	word := func() error { told++; return nil }
	if err := where.admit(stranger.Process.Pid, &program{}, word); err == nil || told > 0 {
		t.Errorf("from outside: %v, told %d times", err, told)
	}
	if err := group.Add(stranger.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := where.admit(stranger.Process.Pid, &program{}, word); err != nil || told != 1 {
		t.Errorf("from inside: %v, told %d times", err, told)
	}
}

// Short of memory, the kernel may choose process 1 of a box: that is the program's
// failure, and not ours.
func TestKernelChoosesProcess1(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.CellWarm = 0 })
	hog := job.Program{Command: &job.Command{Argv: []string{"python3", "-c", "x = b'x' * (200 << 20)"}}}
	step := job.Step{Argv: hog.Command.Argv}
	for name, p := range map[string]job.Program{
		"command": hog, "second step": {Command: &job.Command{Steps: []job.Step{{Argv: []string{"true"}}, step}}},
	} {
		got, err := r.Acquire(t.Context(), cellKeys["command"])
		if err != nil {
			t.Fatal(err)
		}
		defer got.Close()
		first := fmt.Sprintf("/proc/%d/oom_score_adj", got.(*cellSlot).sup.pid)
		if err := os.WriteFile(first, []byte("1000"), 0); err != nil {
			t.Fatal(err)
		}
		rep, err := got.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: p, Plan: cellPlan(func(p *policy.Policy) { p.Memory = 64 * job.MiB })})
		if err != nil || rep.Outcome != job.OutOfMemory {
			t.Errorf("%s: %+v, %v, want out_of_memory", name, rep, err)
		}
	}
}
