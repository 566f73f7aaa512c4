package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// traces identifies the resources of one fleet on this host, so that concurrent tests do not
// confuse their fleets.
type traces struct {
	names   []string            // in a command line or a mount: the fleet's directories
	cgroups []string            // the worker's, below each hierarchy
	netns   map[string]*os.File // of its sandboxes; kept open, so that their numbers are not reused
}

// traces inspects the fleet while it runs.
func (f *fleet) traces(t *testing.T) *traces {
	t.Helper()
	seen := &traces{names: []string{f.Dir(), f.bin}, netns: map[string]*os.File{}}
	groups := regexp.MustCompile(`:/(assay-[0-9a-f]+)/`)
	ours, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	instances := map[string]bool{}
	for _, pid := range f.sandboxed() {
		raw, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
		if err != nil {
			continue // it has ended meanwhile
		}
		for _, m := range groups.FindAllStringSubmatch(string(raw), -1) {
			instances[m[1]] = true
		}
		if strings.HasPrefix(cmdline(pid), "runsc-gofer ") {
			continue // all fleets of this host share one, which runsc has made
		}
		ns, err := os.Open(filepath.Join("/proc", pid, "ns/net"))
		if err != nil {
			continue // likewise
		}
		t.Cleanup(func() { ns.Close() })
		if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", ns.Fd())); err != nil {
			t.Error(err)
		} else if name != ours {
			seen.netns[name] = ns
		}
	}
	if len(instances) == 0 || len(seen.netns) == 0 {
		t.Errorf("no sandbox was seen (cgroups %v, network namespaces %v): what is left could not be told", instances, seen.netns)
	}
	for name := range instances {
		seen.cgroups = append(seen.cgroups, name)
		// If a sandbox cannot pass the state directory.
		seen.names = append(seen.names, "/run/assay/"+strings.TrimPrefix(name, "assay-"))
	}
	return seen
}

// sandboxed lists the processes below the shims of this fleet's containerd.
func (f *fleet) sandboxed() (pids []string) {
	parents := map[string][]string{}
	var shims []string
	for _, pid := range processes() {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parents[fields[1]] = append(parents[fields[1]], pid)
		if line := cmdline(pid); strings.Contains(line, "containerd-shim-") && strings.Contains(line, f.Dir()) {
			shims = append(shims, pid)
		}
	}
	for queue := shims; len(queue) > 0; queue = queue[1:] {
		pids = append(pids, parents[queue[0]]...)
		queue = append(queue, parents[queue[0]]...)
	}
	return pids
}

// left lists the remaining resources.
func (s *traces) left(t *testing.T) (what []string) {
	t.Helper()
	for _, pid := range processes() {
		line := cmdline(pid)
		for _, name := range s.names {
			if strings.Contains(line, name) {
				what = append(what, "process "+pid+": "+line)
			}
		}
		if ns, err := os.Readlink(filepath.Join("/proc", pid, "ns/net")); err == nil && s.netns[ns] != nil {
			what = append(what, "network namespace "+ns+" of process "+pid+": "+line)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(mounts)) {
		for _, name := range s.names {
			if strings.Contains(line, name) {
				what = append(what, "mount: "+line)
			}
		}
	}
	for _, name := range s.cgroups {
		for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
			found, _ := filepath.Glob(pattern + name)
			for _, dir := range found {
				what = append(what, "cgroup: "+dir)
			}
		}
	}
	return what
}

func processes() (pids []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") == "" {
			pids = append(pids, e.Name())
		}
	}
	return pids
}

// cmdline returns the command line of a process, or "" if it has ended.
func cmdline(pid string) string {
	raw, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	return strings.ReplaceAll(strings.TrimRight(string(raw), "\x00"), "\x00", " ")
}

// running lists the processes that have word among their arguments.
func running(word string) (pids []string) {
	for _, pid := range processes() {
		if slices.Contains(strings.Fields(cmdline(pid)), word) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// started lists the processes that run the program at path.
func started(path string) (pids []string) {
	for _, pid := range processes() {
		if exe, err := os.Readlink(filepath.Join("/proc", pid, "exe")); err == nil && exe == path {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill sends a signal to every process that runs the program at path.
func kill(t *testing.T, path string, sig unix.Signal) (n int) {
	t.Helper()
	for _, pid := range started(path) {
		id, err := strconv.Atoi(pid)
		if err == nil {
			err = unix.Kill(id, sig)
		}
		if err != nil {
			t.Error(err)
		}
		n++
	}
	return n
}
