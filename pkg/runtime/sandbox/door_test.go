package sandbox

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// Nothing but door.go names the words that have a process become a program.
func TestOneDoor(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
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
			if said[s.Sel.Name] = true; filepath.ToSlash(name) != "../sandbox/door.go" {
				t.Errorf("%s says guest.%s: programs are started in door.go", name, s.Sel.Name)
			}
			return true
		})
	}
	if len(said) != 2 {
		t.Errorf("only %v is said anywhere: does this test look for the right words?", said)
	}
}

// TestNobodyIsAdmittedFromOutside checks that a process outside the job's group gets no message.
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
	told, where := 0, &Place{Group: group}
	word := func() error { told++; return nil }
	if err := where.admit(stranger.Process.Pid, &Program{}, word); err == nil || told > 0 {
		t.Errorf("from outside: %v, told %d times", err, told)
	}
	if err := group.Add(stranger.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := where.admit(stranger.Process.Pid, &Program{}, word); err != nil || told != 1 {
		t.Errorf("from inside: %v, told %d times", err, told)
	}
}
