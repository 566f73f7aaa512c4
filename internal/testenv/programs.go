package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/cli/dev"
)

// Programs returns a directory with every program of cmd, built from this source tree with these
// tags. All test binaries share one build, because linking takes long. The directory belongs to the
// test, so that the paths of its processes are unique.
func Programs(t testing.TB, tags ...string) string {
	t.Helper()
	Needs(t, "the programs of cmd")
	own := t.TempDir()
	if err := programs(t.Context(), own, tags); err != nil {
		t.Fatal(err)
	}
	return own
}

func programs(ctx context.Context, own string, tags []string) error {
	root, err := repoRoot()
	if err != nil {
		return err
	}
	shared := filepath.Join(root, ".cache", "testenv", strings.Join(append([]string{"programs"}, tags...), "-"))
	lock, err := turn(ctx, shared)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	// A current link is not replaced.
	build := exec.CommandContext(ctx, "go", "build", "-tags", strings.Join(tags, ","), "-o", shared, "./cmd/...")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	made, err := os.ReadDir(shared)
	if err != nil {
		return err
	}
	made = slices.DeleteFunc(made, func(e os.DirEntry) bool { return e.Name() == "lock" })
	for _, e := range made {
		if err := link(filepath.Join(shared, e.Name()), filepath.Join(own, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// turn waits until no other test binary uses the directory. The timeout allows for builds on a busy
// machine.
func turn(ctx context.Context, dir string) (*dev.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		lock, err := dev.Acquire(dir)
		if err == nil || !errors.Is(err, dev.ErrLocked) {
			return lock, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// link links a file to another name, or copies it to another file system.
func link(from, to string) error {
	err := os.Link(from, to)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
