package python_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/guest/python"
)

// The python programs have tests of their own, beside them.
func TestPython(t *testing.T) {
	files, err := filepath.Glob("*.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // so that go test knows what its answer depends on
		if _, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "-m", "unittest", "discover", "-p", "*_test.py")
	cmd.Env = append(os.Environ(), "ASSAY_HARNESS="+harness(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v (python3 is needed)\n%s", err, out)
	}
}

// harness is a file of the harness, as workers have it.
func harness(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "harness.py")
	if err := os.WriteFile(file, python.Harness, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The harness is one file, which imports nothing of ours: where it lies there is nothing else.
func TestHarnessIsOneFile(t *testing.T) {
	text := string(python.Harness)
	if strings.Contains(text, "from assay_") {
		t.Error("it imports what is to be in it")
	}
	for _, name := range []string{"def prepare(", "def _value(", "class _Looker", "def _table(", "def _dumps("} {
		if strings.Count(text, "\n"+name) != 1 {
			t.Errorf("it has %d of %s", strings.Count(text, "\n"+name), name)
		}
	}
}

// An interpreter that has none of the modules is lent those of its service, not
// another one's, and nothing of them is in the program's own sight.
func TestServicesAreLent(t *testing.T) {
	const probe = `
import sys
def serve(fd):
    print(fd, sorted(m for m in sys.modules if "assay" in m), sorted(n for n in vars(sys.modules["__main__"]) if n[0] != "_"))
`
	for name, want := range map[string]string{
		"solution": "5 ['assay_apart', 'assay_code', 'assay_content', 'assay_graph', 'assay_imports', 'assay_solution', 'assay_wire'] []\n",
		"check":    "5 ['assay_apart', 'assay_async', 'assay_check', 'assay_code', 'assay_content', 'assay_fault', 'assay_graph', 'assay_lent', 'assay_proxy', 'assay_suite', 'assay_wire'] []\n",
		"session":  "5 ['_assay_session', 'assay_imports', 'assay_output', 'assay_shell', 'assay_wire'] []\n",
	} {
		s := python.Services()[name]
		last := s.Sources[len(s.Sources)-1]
		if last[0] != s.Module {
			t.Errorf("%s: the last source is %s, the module %s", name, last[0], s.Module)
		}
		s.Sources = append(s.Sources, [2]string{"probe", probe})
		s.Module, s.Function = "probe", "serve"
		body, err := json.Marshal(map[string]any{"serve": s})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "request")
		if err := os.WriteFile(file, body, 0o600); err != nil {
			t.Fatal(err)
		}
		request, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer request.Close()
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		cmd := exec.CommandContext(t.Context(), "python3", "-B", harness(t))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PYTHONSAFEPATH=1"} // modules that lie beside it are not found
		cmd.ExtraFiles = []*os.File{request, null, null}
		said, err := cmd.CombinedOutput()
		if err != nil || string(said) != want {
			t.Errorf("%s: %q, want %q (%v)", name, said, want, err)
		}
	}
}
