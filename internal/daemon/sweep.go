package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sweep removes everything that runs or is mounted on behalf of this directory while its daemon is down. What belongs to
// it is found from the directory alone: shims name its socket in their arguments, bundles and mounts lie below it.
func (c *Containerd) sweep(ctx context.Context) error {
	bundles, err := filepath.Glob(filepath.Join(c.stateDir, "io.containerd.runtime.v2.task", "*", "*"))
	if err != nil {
		return err
	}
	// Containers first: once its shim is gone, a container's processes are nobody's children.
	for _, b := range bundles {
		c.killContainer(b)
	}
	if err := c.killShims(ctx); err != nil {
		return err
	}
	for _, b := range bundles {
		c.deleteBundle(ctx, b)
	}
	return c.unmountBelow()
}

// killContainer kills the container's first process, and with it the pid namespace.
func (c *Containerd) killContainer(bundle string) {
	path := filepath.Join(bundle, "init.pid")
	data, err := os.ReadFile(path)
	if err != nil {
		return // never started
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return
	}
	// The number may have been given to somebody else since, above all after a reboot. Hold the process while checking
	// that it is the one that was there when the file was written.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	info, err := os.Stat(path)
	if err != nil || !startedAround(pid, info.ModTime()) {
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// startedAround says whether the process was started at most a few seconds before t.
func startedAround(pid int, t time.Time) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The command name may hold anything, so count fields from its closing parenthesis: starttime is field 22.
	_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 {
		return false
	}
	ticks, err := strconv.ParseInt(string(fields[19]), 10, 64)
	if err != nil {
		return false
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return false
	}
	const ticksPerSecond = 100 // USER_HZ, the same on every architecture that Go supports
	age := time.Duration(now.Nano()) - time.Duration(ticks)*time.Second/ticksPerSecond
	early := t.Sub(time.Now().Add(-age))
	return early > -2*time.Second && early < 30*time.Second
}

// killShims kills the shims that were started for this socket and waits until they are gone.
func (c *Containerd) killShims(ctx context.Context) error {
	for {
		pids, err := c.shims()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("shims %v do not end: %w", pids, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// shims lists the processes that are a containerd shim for our socket. Zombies have no arguments and do not count.
func (c *Containerd) shims() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // gone meanwhile
		}
		args := strings.Split(string(data), "\x00")
		i := slices.Index(args, "-address")
		if strings.HasPrefix(filepath.Base(args[0]), "containerd-shim-") && i > 0 && i+1 < len(args) && args[i+1] == c.address {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// deleteBundle lets the shim's own "delete" remove what the runtime made (cgroups, its record of the container), then
// removes the shim's socket and the bundle. It does as much as it can: what stays is unmounted and harmless.
func (c *Containerd) deleteBundle(ctx context.Context, bundle string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	namespace, id := filepath.Base(filepath.Dir(bundle)), filepath.Base(bundle)
	cmd := c.command(ctx, shimBinary(bundle), "-namespace", namespace, "-address", c.address, "-id", id, "-bundle", bundle, "delete")
	cmd.Dir = bundle
	// A shim in a bundle without a process has nothing to delete and says so: not worth a report.
	_ = cmd.Run()
	removeCgroups(bundle)
	removeShimSocket(bundle)
	_ = unmountTree(bundle)
	_ = os.RemoveAll(bundle)
}

// shimBinary is the shim that made the bundle.
func shimBinary(bundle string) string {
	if data, err := os.ReadFile(filepath.Join(bundle, "shim-binary-path")); err == nil { // since containerd 1.7
		return strings.TrimSpace(string(data))
	}
	return "containerd-shim-runc-v2"
}

// removeShimSocket removes the socket of a killed shim. Shims keep them outside of the state directory, in one place for
// all containerds of a machine, under a name hashed from ours.
func removeShimSocket(bundle string) {
	data, err := os.ReadFile(filepath.Join(bundle, "address"))
	if err != nil {
		if data, err = os.ReadFile(filepath.Join(bundle, "bootstrap.json")); err != nil { // since containerd 2.0
			return
		}
		var params struct{ Address string }
		if json.Unmarshal(data, &params) != nil {
			return
		}
		data = []byte(params.Address)
	}
	if path, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "unix://"); ok && filepath.IsAbs(path) {
		_ = os.Remove(path)
	}
}

// removeCgroups removes the container's cgroups if the runtime did not: after a kill of everything, its record is gone
// while the empty groups are still there.
func removeCgroups(bundle string) {
	data, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil {
		return
	}
	var spec struct{ Linux struct{ CgroupsPath string } }
	if json.Unmarshal(data, &spec) != nil {
		return
	}
	path := spec.Linux.CgroupsPath
	if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
		return // systemd's "slice:prefix:name": systemd removes those
	}
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		roots, _ := filepath.Glob(pattern)
		for _, root := range roots {
			removeCgroup(filepath.Join(root, path))
			// The group that held it, made for it; rmdir refuses if it holds others.
			if parent := filepath.Dir(path); parent != "/" {
				_ = unix.Rmdir(filepath.Join(root, parent))
			}
		}
	}
}

// removeCgroup removes a group and those below it. rmdir refuses where a process is left, so nothing alive is hurt.
func removeCgroup(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	_ = unix.Rmdir(dir)
}

// unmountBelow removes every mount in the directory.
func (c *Containerd) unmountBelow() error { return unmountTree(c.dir) }

// unmountTree unmounts everything at or below dir, the deepest and latest first.
func unmountTree(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	slices.Reverse(mounts)
	var errs []error
	for _, m := range mounts {
		if err := unix.Unmount(m, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m, err))
		}
	}
	return errors.Join(errs...)
}

// mountsBelow lists the mount points at or below dir in the order in which they were mounted.
func mountsBelow(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20) // overlay options are long
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		path := unescapeMount(fields[4])
		if path == dir || strings.HasPrefix(path, dir+"/") {
			found = append(found, path)
		}
	}
	return found, lines.Err()
}

// unescapeMount undoes the kernel's octal escapes of blanks and backslashes.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
