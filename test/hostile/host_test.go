package hostile

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd"
)

// host is this machine, as attacks would like to touch it.
type host struct {
	rt       *containerd.Runtime
	stateDir string
	secret   string // what the file says
	file     string // that no job may read, write or remove
	port     int    // that no job may reach
	abstract string // socket that no job may reach
	visits   atomic.Int64
	before   map[string]string
	idle     map[string]int
}

// newHost lays out the bait.
func newHost(t *testing.T, rt *containerd.Runtime, stateDir string) *host {
	t.Helper()
	h := &host{rt: rt, stateDir: stateDir, secret: "secret-" + string(job.NewID()), abstract: "@hostile-" + string(job.NewID())}
	h.file = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(h.file, []byte(h.secret), 0o666); err != nil { // #nosec: it is bait
		t.Fatal(err)
	}
	tcp := h.listen(t, "tcp", ":0")
	h.port = tcp.Addr().(*net.TCPAddr).Port
	h.listen(t, "unix", h.abstract)
	h.before = settings(t)
	return h
}

func (h *host) listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.visits.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l
}

// bait is the environment that tells an attack where things are.
func (h *host) bait(mark string) map[string]string {
	env := map[string]string{
		"HOSTILE_MARK": mark, "HOSTILE_FILE": h.file, "HOSTILE_PORT": strconv.Itoa(h.port),
		"HOSTILE_SOCKET": h.abstract, "HOSTILE_ADDRESSES": strings.Join(addresses(), " "),
		"HOSTILE_CGROUP": h.rt.Cgroup(),
	}
	return env
}

// addresses are those of this machine.
func addresses() []string {
	list := []string{"127.0.0.1", "::1"}
	found, _ := net.InterfaceAddrs()
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// settings are what a job with power over this machine would change.
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

// untouched checks, right after an attack, that the bait was not taken and that
// nothing of the attack lives.
func (h *host) untouched(t *testing.T, mark string, report *runtime.Report, kept map[string][]byte) {
	t.Helper()
	if n := h.visits.Swap(0); n > 0 {
		t.Errorf("%d connections reached the host", n)
	}
	if data, err := os.ReadFile(h.file); err != nil || string(data) != h.secret {
		t.Errorf("the file on the host: %q, %v", data, err)
	}
	if leaks(report, kept, h.secret) {
		t.Error("it read the file on the host")
	}
	within(t, "processes of the attack live on", func() string { return strings.Join(withMark(mark), ", ") })
}

// withMark lists processes whose environment has mark.
func withMark(mark string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && strings.Contains(string(data), mark) {
			found = append(found, f)
		}
	}
	return found
}

// clean checks that the host is as it was before the first attack.
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

// settle notes what there is while nothing runs.
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

// inventory counts what the runtime has on this host.
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

// within waits, for a while, until f has nothing to say.
func within(t *testing.T, problem string, f func() string) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
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
