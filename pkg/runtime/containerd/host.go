package containerd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	stdruntime "runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// layGuest puts into dir what every sandbox finds at /run/assay.
//
// It is a mount of its own, because a user namespace cannot take off a flag that
// a mount has on the host: below /run, say, which systems mount noexec, the
// guest could not be executed.
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
		return fmt.Errorf("guest binary: %w; build it with make build, or say where it is", err)
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
		os.WriteFile(filepath.Join(dir, "assay_proxy.py"), python.Proxy, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_fault.py"), python.Fault, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_suite.py"), python.Suite, 0o644),
		os.WriteFile(filepath.Join(dir, "assay_check.py"), python.Check, 0o644),
		os.WriteFile(filepath.Join(dir, "session.py"), python.Session, 0o644),
		os.WriteFile(filepath.Join(dir, "child.py"), python.Child, 0o644),
		os.WriteFile(filepath.Join(dir, "fork.py"), python.Fork, 0o644),
		os.WriteFile(filepath.Join(dir, "zygote.py"), python.Zygote, 0o644))
}

// probeTime bounds the self-check on a machine without any time left.
const probeTime = 20 * time.Second

// inspect is the self-check of this host.
func (r *Runtime) inspect(ctx context.Context) policy.Host {
	h := policy.Host{
		CgroupV2: r.cgroups.V2(), Cores: stdruntime.NumCPU(), Memory: hostMemory(), Holes: r.cfg.Holes,
		Processes: MostProcesses("/"), OpenFiles: mostOpenFiles(),
	}
	if why := lacksUserNamespaces(); why != "" {
		h.Missing = append(h.Missing, why)
		return h
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := ProbeCell(ctx, r.cfg.Guest); err != nil {
		h.Missing = append(h.Missing, "isolation cell: "+err.Error())
	} else {
		h.Isolations = append(h.Isolations, policy.Cell)
	}
	h.Isolations = append(h.Isolations, policy.Task)
	if r.cfg.Runsc != "" {
		if err := ProbeGVisor(ctx, r.cfg.Runsc); err != nil {
			h.Missing = append(h.Missing, "isolation gvisor: "+err.Error())
		} else {
			h.Isolations = append(h.Isolations, policy.GVisor)
		}
	}
	if r.cfg.VMRuntime != "" {
		h.Isolations = append(h.Isolations, policy.VM)
	}
	withhold(&h, Privileges(r.cfg.CgroupRoot))
	if r.cfg.Snapshotter != "overlayfs" {
		h.Unenforced = map[string]string{"packages": "environments need the snapshotter overlayfs, not " + r.cfg.Snapshotter}
	}
	return h
}

// lacksUserNamespaces says what keeps this host from making user namespaces.
func lacksUserNamespaces() string {
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return "user namespaces: the kernel was built without them"
	}
	data, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	if n, aerr := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && aerr == nil && n == 0 {
		return "user namespaces: they are switched off; set sysctl user.max_user_namespaces above 0"
	}
	return ""
}

// hostMemory returns the memory of this host, or what of it this container may have, in
// bytes; 0 if it is unknown.
func hostMemory() job.Size {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if _, err := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); err == nil {
			return lesser(job.Size(kib)*job.KiB, memoryLimit(cgroup.DefaultRoot))
		}
	}
	return 0
}

// memoryLimit returns the limit of the control group that is mounted at root, 0 if it
// has none: that of a container, which those of its jobs are below.
func memoryLimit(root string) job.Size {
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil { // or it says max
			return job.Size(n)
		}
	}
	return 0
}

// lesser is the smaller of a size and a limit, 0 for none.
func lesser(size, limit job.Size) job.Size {
	if limit > 0 && limit < size {
		return limit
	}
	return size
}
