package hostile

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd"
)

// host is this machine as a target of attacks.
type host struct {
	rt       *containerd.Runtime
	stateDir string
	bait     *Bait
	before   map[string]string
	idle     map[string]int
}

// newHost creates the bait.
func newHost(t *testing.T, rt *containerd.Runtime, stateDir string) *host {
	t.Helper()
	bait, err := LayBait(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bait.Close)
	return &host{rt: rt, stateDir: stateDir, bait: bait, before: settings(t)}
}

// settings returns the settings that a job with power over this machine would change.
func settings(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	read := []string{
		"/etc/passwd", "/etc/shadow", "/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/sysrq", "/proc/sys/kernel/panic", "/proc/sys/kernel/domainname", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/status", "/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run",
	}
	agents, _ := filepath.Glob("/sys/fs/cgroup/*/release_agent")
	for _, f := range append(read, agents...) {
		data, err := os.ReadFile(f)
		out[f] = fmt.Sprint(string(data), err)
	}
	return out
}

// untouched checks, right after an attack, that the bait is untouched and that no process of the
// attack lives.
func (h *host) untouched(t *testing.T, mark string, report *runtime.Report, kept map[string][]byte) {
	t.Helper()
	for _, what := range h.bait.Taken() {
		t.Error(what)
	}
	if leaks(report, kept, h.bait.Secret()) {
		t.Error("it read the file on the host")
	}
	within(t, "processes of the attack live on", func() string { return strings.Join(WithMark(mark), ", ") })
}

// clean checks that the host is in its state before the first attack.
func (h *host) clean(t *testing.T) {
	t.Helper()
	if d := cmp.Diff(h.before, settings(t)); d != "" {
		t.Errorf("settings of the host (-before +after):\n%s", d)
	}
	within(t, "left on the host", func() string {
		more := map[string]int{}
		for what, n := range h.inventory(t) {
			if n > h.idle[what] {
				more[what] = n - h.idle[what]
			}
		}
		if len(more) == 0 {
			return ""
		}
		return fmt.Sprint(more)
	})
}

// settle records the inventory while nothing runs.
func (h *host) settle(t *testing.T) {
	t.Helper()
	last := map[string]int{}
	within(t, "the host does not settle", func() string {
		h.idle = h.inventory(t)
		if maps.Equal(h.idle, last) {
			return ""
		}
		last = h.idle
		return fmt.Sprint(last)
	})
}

// inventory counts the runtime's resources on this host.
func (h *host) inventory(t *testing.T) map[string]int {
	t.Helper()
	n := map[string]int{}
	own := strconv.Itoa(os.Getpid())
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, f := range groups {
		data, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(data), h.rt.Cgroup()+"/") && filepath.Base(filepath.Dir(f)) != own {
			n["processes"]++
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		slots, _ := filepath.Glob(pattern + h.rt.Cgroup() + "/*-*") // groups of cells are kept for the next job
		n["control groups"] += len(slots)
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	n["mounts"] = strings.Count(string(table), h.stateDir+"/")
	_ = filepath.WalkDir(h.stateDir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "/images/") {
			return filepath.SkipDir
		}
		n["files"]++
		return nil
	})
	return n
}

// within waits until f returns "". On a busy machine, killed processes may take long to disappear.
func within(t *testing.T, problem string, f func() string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		said := f()
		if said == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: %s", problem, said)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
