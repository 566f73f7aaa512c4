package dev_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
)

// TestImageIsBuiltWholeOrNotAtAll checks that an interrupted build leaves no partial image, and that a concurrent
// build is an error. make test-wheels tests the build itself, which takes half a minute and a package mirror.
func TestImageIsBuiltWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, "root and mmdebstrap")
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said strings.Builder
	if _, err := dev.BuildImage(ctx, dir, dev.DefaultImage, &said); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_, archive, _ := strings.Cut(strings.TrimSuffix(said.String(), " …\n"), "into ")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || filepath.Dir(archive) != dir {
		t.Errorf("beside the lock there is %v, %v; said %q", left, err, said.String())
	}
	lock, err := dev.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dev.BuildImage(t.Context(), dir, dev.DefaultImage, &said); !errors.Is(err, dev.ErrLocked) {
		t.Errorf("beside another one: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archive, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := dev.BuildImage(ctx, dir, dev.DefaultImage, &said); err != nil || got != archive {
		t.Errorf("what is there is built again: %q, %v", got, err)
	}
}
