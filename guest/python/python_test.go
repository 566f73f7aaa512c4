package python_test

import (
	"os/exec"
	"testing"
)

// The python programs have tests of their own, beside them.
func TestPython(t *testing.T) {
	out, err := exec.Command("python3", "-B", "-m", "unittest", "discover", "-p", "*_test.py").CombinedOutput()
	if err != nil {
		t.Fatalf("%v (python3 is needed)\n%s", err, out)
	}
}
