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

// sweep removes everything that runs or is mounted for this directory while its daemon is down. The
// directory alone identifies these things: shims name its socket in their arguments, and bundles
// and mounts are below it.
func (c *Containerd) sweep(ctx context.Context) error {
	bundles, err := filepath.Glob(filepath.Join(c.stateDir, "io.containerd.runtime.v2.task", "*", "*"))
	if err != nil {
		return err
	}
	// Containers first: without its shim, a container's processes have no parent.
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
	// The number may have been reused since, mainly after a reboot. Hold the process while checking
	// that it already existed when the file was written.
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

// startedAround reports whether the process was started at most a few seconds before t.
func startedAround(pid int, t time.Time) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The command name may contain any characters, so count fields from its closing parenthesis:
	// starttime is field 22.
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

// shims returns the containerd shims for our socket. Zombies have no arguments and do not count.
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
			continue // has ended in the meantime
		}
		args := strings.Split(string(data), "\x00")
		i := slices.Index(args, "-address")
		if strings.HasPrefix(filepath.Base(args[0]), "containerd-shim-") && i > 0 && i+1 < len(args) && args[i+1] == c.address {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// deleteBundle first runs the shim's own "delete", which removes the objects of the runtime
// (cgroups, its record of the container). Then it removes the shim's socket and the bundle. It does
// as much as possible: leftovers are unmounted and harmless.
func (c *Containerd) deleteBundle(ctx context.Context, bundle string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	namespace, id := filepath.Base(filepath.Dir(bundle)), filepath.Base(bundle)
	cmd := c.command(ctx, shimBinary(bundle), "-namespace", namespace, "-address", c.address, "-id", id, "-bundle", bundle, "delete")
	cmd.Dir = bundle
	// For a bundle without a process, the shim has nothing to delete and returns an error, which is
	// not reported.
	_ = cmd.Run()
	removeCgroups(bundle)
	removeShimSocket(bundle)
	_ = unmountTree(bundle)
	_ = os.RemoveAll(bundle)
}

// shimBinary returns the shim that made the bundle.
func shimBinary(bundle string) string {
	if data, err := os.ReadFile(filepath.Join(bundle, "shim-binary-path")); err == nil { // since containerd 1.7
		return strings.TrimSpace(string(data))
	}
	return "containerd-shim-runc-v2"
}

// removeShimSocket removes the socket of a killed shim. Shims keep sockets outside the state
// directory, in one place for all containerds of a machine, under a hash of our path.
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

// removeCgroups removes the container's cgroups if the runtime did not. After a kill of all
// processes, its record is gone but the empty groups remain.
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
			// The parent group, which was made for it; rmdir fails if it holds others.
			if parent := filepath.Dir(path); parent != "/" {
				_ = unix.Rmdir(filepath.Join(root, parent))
			}
		}
	}
}

// removeCgroup removes a group and its descendants. rmdir fails for a group with a process, so
// nothing alive is affected.
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

// mountsBelow returns the mount points at or below dir in mount order.
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

// unescapeMount decodes the kernel's octal escapes of blanks and backslashes.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
