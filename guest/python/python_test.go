package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
	out, err := exec.Command("python3", "-B", "-m", "unittest", "discover", "-p", "*_test.py").CombinedOutput()
	if err != nil {
		t.Fatalf("%v (python3 is needed)\n%s", err, out)
	}
}
