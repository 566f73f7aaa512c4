package grade

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// An interpreter that has none of the modules gets those of its side, not the
// other one's, and nothing else stays in sight.
func TestASideBringsItsModules(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for s, want := range map[side]string{
		solutionSide: "['assay_solution', 'assay_wire'] ['json', 'sys']\n",
		checkSide:    "['assay_check', 'assay_wire'] ['json', 'sys']\n",
	} {
		p, err := s.program()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "python3", "-I", "-B", "-c",
			"import json, sys\ncontext = json.load(sys.stdin)\n"+p.Python.Code+
				"print(sorted(m for m in sys.modules if m.startswith('assay')), sorted(n for n in dir() if n[0] != '_'))")
		cmd.Stdin = bytes.NewReader(p.Python.Context)
		cmd.ExtraFiles = []*os.File{null, null, null} // nobody talks on descriptor 5
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		said, err := cmd.Output()
		if err != nil || string(said) != want {
			t.Errorf("%s: %q, want %q (%v)\n%s", s, said, want, err, complaints.String())
		}
	}
}
