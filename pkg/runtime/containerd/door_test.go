package containerd

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// Nothing but door.go names the words that have a process become a program.
func TestOneDoor(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
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
	if len(said) != 2 {
		t.Errorf("only %v is said anywhere: does this test look for the right words?", said)
	}
}

// A process that is not in the job's group is told nothing.
func TestNobodyIsAdmittedFromOutside(t *testing.T) {
	testenv.Needs(t, "root")
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
	got, err := r.Acquire(t.Context(), cellKeys["command"])
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	s := got.(*cellSlot)
	chosen := fmt.Sprintf("/proc/%d/oom_score_adj", s.sup.pid)
	go func() { // not before it has started the program, which would be chosen, too
		for t.Context().Err() == nil {
			if pids, err := s.lease.Pids(); err != nil || len(pids) > 1 {
				_ = os.WriteFile(chosen, []byte("1000"), 0)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	const code = `
import time
while open("/proc/1/oom_score_adj").read() != "1000\n": time.sleep(0.01)
x = b"x" * (200 << 20)`
	rep, err := s.Run(t.Context(), runtime.Attempt{
		Job: job.NewID(), Lease: 1, Program: job.Program{Command: &job.Command{Argv: []string{"python3", "-c", code}}},
		Plan: cellPlan(func(p *policy.Policy) { p.Memory, p.Wall = 64*job.MiB, job.Duration(30*time.Second) }),
	})
	if err != nil || rep.Outcome != job.OutOfMemory {
		t.Errorf("%+v, %v, want out_of_memory", rep, err)
	}
}

// A job whose interpreter is gone says that its sandbox broke; in a cell that it has
// for itself nothing of a neighbour's reaches it.
func TestLosingAZygoteIsABrokenSandbox(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.CellWarm = 0 })
	begin := func(alone string) (*cellSlot, chan error) {
		key := cellKeys["python"]
		key.Alone = alone
		got, err := r.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(got.Close)
		done := make(chan error, 1)
		go func() {
			rep, err := got.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: pySnippet("import time; time.sleep(1)"), Plan: cellPlan(nil)})
			if err == nil && rep.Outcome != job.Succeeded {
				err = fmt.Errorf("%s: %s", rep.Outcome, rep.Message)
			}
			done <- err
		}()
		return got.(*cellSlot), done
	}
	one, first := begin("")
	alone, second := begin("x")
	if one.cell == alone.cell {
		t.Error("they share a cell")
	}
	one.job.zygote.conn.close()
	if err := <-first; !errors.Is(err, runtime.ErrBroken) {
		t.Errorf("with its interpreter gone: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("by itself: %v", err)
	}
}
