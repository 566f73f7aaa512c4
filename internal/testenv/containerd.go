package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-run/assay/internal/cli/dev"
)

// Image is the reference of the default image, as images/build names it.
const Image = "assay.local/python:latest"

// Env is a private containerd that holds the default image, unpacked.
type Env struct {
	// Address is containerd's socket.
	Address string
	// Namespace holds the image. Each test binary has a different one, because runc keeps its records
	// of containers by namespace for the whole machine, regardless of the containerd.
	Namespace string
	// Image is the default image's reference.
	Image string
	// Daemon is for tests that restart or kill containerd.
	Daemon *dev.Containerd
}

// Containerd returns the containerd of this test binary. Tests share it: use unique container names
// and remove the containers.
func Containerd(t testing.TB) *Env {
	t.Helper()
	Needs(t, "containerd, and root")
	defer env.use(t)()
	if env.containerd == nil {
		if err := env.startContainerd(); err != nil {
			t.Fatal(err)
		}
	}
	return env.containerd
}

func (e *environment) startContainerd() error {
	ctx, cancel := startContext()
	defer cancel()
	dir, err := e.slot("containerd")
	if err != nil {
		return err
	}
	c, err := dev.StartContainerd(ctx, dev.ContainerdConfig{Dir: dir})
	if err != nil {
		return err
	}
	e.stops = append(e.stops, c.Stop)
	namespace := "assay-test-" + filepath.Base(dir)
	if err := importImage(ctx, c, namespace, dir); err != nil {
		return err
	}
	e.containerd = &Env{Address: c.Address(), Namespace: namespace, Image: Image, Daemon: c}
	return nil
}

// importImage imports the default image unless this directory already holds the current one.
func importImage(ctx context.Context, c *dev.Containerd, namespace, dir string) error {
	root, err := repoRoot()
	if err != nil {
		return err
	}
	archive := filepath.Join(root, ".cache", "images", "python.tar")
	key, err := os.ReadFile(archive + ".key")
	if err != nil {
		return fmt.Errorf("the default image is not built: %w; run: make image", err)
	}
	done := filepath.Join(dir, "image.key")
	if have, err := os.ReadFile(done); err == nil && bytes.Equal(have, key) {
		if ok, err := c.HasImage(ctx, namespace, Image); ok && err == nil {
			return nil
		}
	}
	if err := os.Remove(done); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := c.Import(ctx, namespace, archive); err != nil {
		return err
	}
	return os.WriteFile(done, key, 0o644)
}
