package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/hostcheck"
)

// layGuest creates the content of /run/assay for every sandbox in dir.
//
// It is a separate mount, because a user namespace cannot remove the host's mount flags: the guest
// could not be executed below /run, which some systems mount noexec.
func layGuest(binary, dir string) error {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("assay", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64m"); err != nil {
		return fmt.Errorf("mount a place for the guest: %w", err)
	}
	for _, mountpoint := range []string{"slot", "root", "points"} {
		if err := os.MkdirAll(filepath.Join(dir, mountpoint), 0o755); err != nil {
			return err
		}
	}
	src, err := os.Open(binary)
	if err != nil {
		return fmt.Errorf("guest binary: %w; build it with make build", err)
	}
	defer src.Close()
	dst, err := os.OpenFile(filepath.Join(dir, "guest"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err = errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("guest binary: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "harness.py"), python.Harness, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_imports.py"), python.Imports, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_output.py"), python.Output, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_shell.py"), python.Shell, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_wire.py"), python.Wire, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_code.py"), python.Code, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_solution.py"), python.Solution, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_content.py"), python.Content, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_graph.py"), python.Graph, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_apart.py"), python.Apart, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_lent.py"), python.Lent, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_proxy.py"), python.Proxy, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_fault.py"), python.Fault, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_suite.py"), python.Suite, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_async.py"), python.Async, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_check.py"), python.Check, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_shared.py"), python.Shared, 0o644),
		os.WriteFile(filepath.Join(dir, "session.py"), python.Session, 0o644),
		os.WriteFile(filepath.Join(dir, "child.py"), python.Child, 0o644),
		os.WriteFile(filepath.Join(dir, "fork.py"), python.Fork, 0o644),
		os.WriteFile(filepath.Join(dir, "zygote.py"), python.Zygote, 0o644))
}

// inspect runs the self-check of this host.
func (r *Runtime) inspect(ctx context.Context) policy.Host {
	h := hostcheck.Inspect(ctx, hostcheck.Worker{
		Guest: r.cfg.Guest, Runsc: r.cfg.Runsc, VM: r.cfg.VMRuntime != "", Groups: r.cgroups, Root: r.cfg.CgroupRoot,
	})
	h.Holes = r.cfg.Holes
	return h
}
