package dev_test

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/cli/dev"
)

func TestAcquireNamesTheHolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	h := startHelper(t, "lock", dir)
	_, err := dev.Acquire(dir)
	if !errors.Is(err, dev.ErrLocked) {
		t.Fatalf("Acquire of a held directory = %v, want ErrLocked", err)
	}
	if pid := strconv.Itoa(h.cmd.Process.Pid); !strings.Contains(err.Error(), "process "+pid) || !strings.Contains(err.Error(), dir) {
		t.Errorf("the error does not name process %s and %s: %v", pid, dir, err)
	}

	// The kernel releases the lock of a killed process.
	h.kill()
	lock, err := dev.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

func TestReleaseLetsTheNextIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 3 {
		lock, err := dev.Acquire(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dev.Acquire(dir); !errors.Is(err, dev.ErrLocked) {
			t.Errorf("second Acquire = %v, want ErrLocked", err)
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
	}
}
