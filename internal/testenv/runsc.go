package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Runsc returns the path of gVisor's runsc. It builds runsc from its Go module if necessary.
func Runsc(t testing.TB) string {
	t.Helper()
	Needs(t, "runsc")
	script := filepath.Join(RepoRoot(t), "scripts", "runsc")
	cmd := exec.CommandContext(t.Context(), script)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(string(out))
}
