package containerd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
)

// Deployments have one volume for a worker: its state directory also holds the
// environments that it keeps and the archives that it imports.
func TestWhatIsBesideTheStateIsKept(t *testing.T) {
	testenv.Needs(t, "root")
	state := passableDir(t)
	names := []string{"environments", "images", "slots", "cells", "guest", "runsc", "dev", "bare"}
	for _, name := range names {
		if err := errors.Join(os.Mkdir(filepath.Join(state, name), 0o755), os.WriteFile(filepath.Join(state, name, "mine"), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	volume := filepath.Join(state, "images")
	if err := unix.Mount("assay", volume, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(volume, unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(volume, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t)
	cfg.StateDir, cfg.Environments = state, filepath.Join(state, "environments")
	r, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	runOne(t, r, "true")
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(state, name, "mine")); err != nil {
			t.Errorf("the runtime removed what is not its own: %v", err)
		}
	}
	if r.dir != filepath.Join(state, Run) {
		t.Errorf("the state is in %s", r.dir)
	}
	if _, err := os.Stat(r.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the runtime's own directory is still there: %v", err)
	}
}

// passableDir returns a directory that others may pass, so that it is used as it is.
func passableDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestNothingToKeepIsWhereStateIsRemoved(t *testing.T) {
	for what, edit := range map[string]func(c *Config, path string){
		"environments": func(c *Config, path string) { c.Environments = path },
		"an archive":   func(c *Config, path string) { c.ImageArchives = []string{path} },
	} {
		cfg := testConfig(t)
		cfg.StateDir = passableDir(t)
		path := filepath.Join(cfg.StateDir, Run, "images", "kept")
		edit(&cfg, path)
		if _, err := New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: New = %v, want an error that names %s", what, err, path)
		}
	}
}
