package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/assay-run/assay/internal/daemon"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// own as containerd's address makes the worker run its own containerd.
const own = "own"

// ownContainerd starts the worker's own containerd below the state directory, if configured, and
// keeps it running until stop. Images and snapshots outlive it.
func (c *config) ownContainerd(ctx context.Context) (stop func(context.Context) error, err error) {
	if c.standIn != nil || c.Containerd != own {
		return func(context.Context) error { return nil }, nil
	}
	// In a container, this process is in the group that should contain the jobs' groups. If moving it
	// is not allowed, the runtime offers nothing and reports the reason.
	if err := cgroup.MakeRoom(cgroup.DefaultRoot); err != nil {
		slog.WarnContext(ctx, "control groups of jobs not available", "error", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	started, err := daemon.StartContainerd(ctx, daemon.ContainerdConfig{
		Dir: filepath.Join(c.StateDir, "containerd"), BinDir: filepath.Dir(exe), Log: os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	slog.InfoContext(ctx, "own containerd started", "version", started.Version(), "address", started.Address())
	c.Containerd = started.Address()
	c.ImageArchives = append(c.ImageArchives, brought(exe)...)
	return started.Keep(slog.Default()), nil
}

// brought returns the image archives that came with the program exe, in a worker's image.
func brought(exe string) []string {
	// an error means a bad pattern
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(exe), "..", "share", "assay", "*.tar"))
	return found
}
