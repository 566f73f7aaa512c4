package testenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramsAreSharedByNamesOfTheirOwn checks that tests have their own directories with the same programs, which
// are linked once.
func TestProgramsAreSharedByNamesOfTheirOwn(t *testing.T) {
	a, b := Programs(t), Programs(t)
	if a == b {
		t.Fatal("two tests have one directory: whoever kills his worker kills the other's")
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(a, "guest"), "no such command").CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) {
		t.Errorf("the guest does not run: %v\n%s", err, out)
	}
	for _, name := range strings.Fields("assay dispatcher worker guest") {
		one, err := os.Stat(filepath.Join(a, name))
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.Stat(filepath.Join(b, name))
		if err != nil {
			t.Fatal(err)
		}
		if !one.ModTime().Equal(other.ModTime()) {
			t.Errorf("%s was linked twice", name)
		}
	}
}
