package dev_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
)

// binDir is searched for containerd before PATH, so that the tests can run with another version.
var binDir = os.Getenv("ASSAY_TEST_CONTAINERD_BIN")

func startContainerd(t *testing.T, dir string) *dev.Containerd {
	t.Helper()
	testenv.Needs(t, "containerd, and root")
	c, err := dev.StartContainerd(t.Context(), dev.ContainerdConfig{Dir: dir, BinDir: binDir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(stopContext(t)); err != nil {
			t.Error(err)
		}
	})
	return c
}

func ctr(t *testing.T, address string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ctr", append([]string{"--address", address, "--namespace", namespace(t)}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// namespace returns a namespace for the test: runc keeps its records by namespace, for all containerds of the host.
func namespace(t *testing.T) string { return "dev-" + strings.ToLower(t.Name()) }

// container is a running container and the resources that must be cleaned up.
type container struct {
	state string // containerd's state directory
	init  int    // the container's first process
	shim  int
	child int // a process that left its session
	namespace,
	shimSocket string
}

// runContainer starts a container with the host's programs, without an image.
func runContainer(t *testing.T, dir, address string) *container {
	t.Helper()
	rootfs := filepath.Join(t.TempDir(), "rootfs")
	for _, d := range []string{"usr", "proc", "dev", "sys", "tmp", "etc"} {
		if err := os.MkdirAll(filepath.Join(rootfs, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(rootfs, link)); err != nil {
			t.Fatal(err)
		}
	}
	ctr(t, address, "run", "--detach", "--null-io", "--rootfs", "--mount", "type=bind,src=/usr,dst=/usr,options=rbind:ro",
		rootfs, "c1", "/bin/sh", "-c", "setsid sleep 987 & exec sleep 986")

	bundle := filepath.Join(dir, "state", "io.containerd.runtime.v2.task", namespace(t), "c1")
	data, err := os.ReadFile(filepath.Join(bundle, "init.pid"))
	if err != nil {
		t.Fatal(err)
	}
	c := &container{state: filepath.Join(dir, "state"), namespace: namespace(t)}
	if c.init, err = strconv.Atoi(string(data)); err != nil {
		t.Fatal(err)
	}
	c.shim = parentOf(t, c.init)
	eventually(t, "the container has a second process", func() bool { c.child = childOf(c.init); return c.child != 0 })
	for _, name := range []string{"address", "bootstrap.json"} {
		if data, err := os.ReadFile(filepath.Join(bundle, name)); err == nil {
			if i := bytes.Index(data, []byte("unix://")); i >= 0 {
				c.shimSocket, _, _ = strings.Cut(string(data[i+len("unix://"):]), `"`)
			}
		}
	}
	if c.shimSocket == "" || cgroupsNamed(c.namespace) == "" {
		t.Fatalf("the container is not what the test takes it for: socket %q, cgroups %q", c.shimSocket, cgroupsNamed(c.namespace))
	}
	return c
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var state string
	var parent int
	rest := string(data[bytes.LastIndexByte(data, ')')+1:])
	if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
		t.Fatal(err)
	}
	return parent
}

func childOf(pid int) int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	var child int
	_, _ = fmt.Sscan(string(data), &child)
	return child
}

func cgroupsNamed(namespace string) string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		dirs, _ := filepath.Glob(filepath.Join(pattern, namespace))
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				found = append(found, dir)
			}
		}
	}
	return strings.Join(found, " ")
}

func mountsBelow(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, " "+dir+"/") {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// assertGone checks that the host has no leftovers of the container.
func (c *container) assertGone(t *testing.T) {
	t.Helper()
	for what, pid := range map[string]int{"init": c.init, "shim": c.shim, "a daemon of the container": c.child} {
		if alive(pid) {
			t.Errorf("%s (process %d) is left", what, pid)
		}
	}
	if left := cgroupsNamed(c.namespace); left != "" {
		t.Errorf("cgroups are left: %s", left)
	}
	if left := mountsBelow(t, c.state); left != "" {
		t.Errorf("mounts are left: %s", left)
	}
	if _, err := os.Stat(c.shimSocket); !os.IsNotExist(err) {
		t.Errorf("the shim's socket %s is left: %v", c.shimSocket, err)
	}
	if left, _ := filepath.Glob("/run/containerd/runc/" + c.namespace + "/*"); len(left) > 0 {
		t.Errorf("runc's records are left: %s", left)
	}
}

func TestContainerdStopLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startContainerd(t, dir)
	c := runContainer(t, dir, d.Address())
	for range 2 { // the second stop does nothing
		if err := d.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.assertGone(t)
	if alive(d.PID()) {
		t.Error("containerd runs after Stop")
	}
}

// TestContainerdSweepsAfterAKilledParent checks that the next start removes the containers of a killed parent. Its
// daemon ends with it, but the containers are children of the shims.
func TestContainerdSweepsAfterAKilledParent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := startHelper(t, "containerd", dir)
	c := runContainer(t, dir, filepath.Join(dir, "s", "containerd.sock"))
	h.kill()
	eventually(t, "containerd is gone", func() bool { return !alive(h.childPID) })
	if !alive(c.init) {
		t.Error("the container is gone already; there is nothing to sweep")
	}
	startContainerd(t, dir)
	c.assertGone(t)
}

// TestContainerdSweepsAfterAKilledShim checks the same if the shims were killed, too, so that no process knows the
// container.
func TestContainerdSweepsAfterAKilledShim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := startHelper(t, "containerd", dir)
	c := runContainer(t, dir, filepath.Join(dir, "s", "containerd.sock"))
	for _, pid := range []int{h.childPID, c.shim} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	h.kill()
	eventually(t, "containerd and the shim are gone", func() bool { return !alive(h.childPID) && !alive(c.shim) })
	startContainerd(t, dir)
	c.assertGone(t)
}

func TestContainerdRestartKeepsContainers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startContainerd(t, dir)
	c := runContainer(t, dir, d.Address())
	before := d.PID()
	if err := d.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d.PID() == before || alive(before) {
		t.Error("it is the same daemon")
	}
	if out := ctr(t, d.Address(), "tasks", "list"); !alive(c.init) || !strings.Contains(out, "RUNNING") {
		t.Errorf("the container did not survive: %s", out)
	}
}

func TestContainerdRefusesASecond(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startContainerd(t, dir)
	_, err := dev.StartContainerd(t.Context(), dev.ContainerdConfig{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "already answers") {
		t.Errorf("second containerd in one directory: %v", err)
	}
	if !alive(d.PID()) {
		t.Error("the first was swept away")
	}
}

func TestContainerdSocketPathTooLong(t *testing.T) {
	t.Parallel()
	d := startContainerd(t, longDir(t))
	if len(d.Address()) > 100 {
		t.Errorf("socket path %s has %d bytes", d.Address(), len(d.Address()))
	}
	if d.Version() == "" {
		t.Error("no version")
	}
	if err := d.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(d.Address())); !os.IsNotExist(err) {
		t.Errorf("the socket directory is left behind: %v", err)
	}
}
