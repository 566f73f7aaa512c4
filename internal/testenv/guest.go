package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Guest returns the path of the guest binary. It is built once for a test binary and kept in the
// test cache. Without a compiler, ASSAY_GUEST names it.
func Guest(t testing.TB) string {
	t.Helper()
	Needs(t, "the program of cmd/guest")
	file, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

var guest = sync.OnceValues(func() (string, error) {
	if file := os.Getenv("ASSAY_GUEST"); file != "" {
		return file, nil
	}
	root, err := repoRoot()
	if err != nil {
		return "", err
	}
	file := filepath.Join(root, ".cache", "testenv", "guest")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	fresh := fmt.Sprintf("%s.%d", file, os.Getpid())
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", fresh, "github.com/assay-run/assay/cmd/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the guest: %w\n%s", err, out)
	}
	return file, os.Rename(fresh, file)
})
