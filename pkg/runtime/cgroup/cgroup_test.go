package cgroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/assay-run/assay/internal/testenv"
)

// tree writes files below a temporary directory that stands for /sys/fs/cgroup.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func contents(t *testing.T, root string, names ...string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(root, n))
		if err != nil {
			t.Fatal(err)
		}
		got[n] = string(b)
	}
	return got
}

var v1Files = map[string]string{
	"memory/cgroup.procs": "", "cpu/cgroup.procs": "", "cpuacct/cgroup.procs": "", "pids/cgroup.procs": "",
	"memory/a/memory.limit_in_bytes": "", "memory/a/memory.memsw.limit_in_bytes": "",
	"memory/a/memory.max_usage_in_bytes": "4096\n",
	"memory/a/memory.oom_control":        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
	"cpu/a/cpu.cfs_quota_us":             "", "cpuacct/a/cpuacct.usage": "1500000\n",
	"pids/a/pids.max": "", "pids/a/pids.events": "max 3\n", "pids/a/pids.peak": "9\n",
	"pids/a/cgroup.procs": "12\n0\n34\n",
}

var v2Files = map[string]string{
	"cgroup.controllers": "cpuset cpu io memory pids\n",
	"a/memory.max":       "", "a/memory.swap.max": "", "a/cpu.max": "", "a/pids.max": "",
	"a/cpu.stat":    "usage_usec 1500\nuser_usec 1\n",
	"a/memory.peak": "4096\n", "a/memory.events": "low 0\noom 1\noom_kill 2\noom_group_kill 0\n",
	"a/pids.events": "max 3\n", "a/pids.peak": "9\n", "a/cgroup.procs": "12\n0\n34\n",
}

func TestBothVersionsReadTheSame(t *testing.T) {
	t.Parallel()
	want := Usage{CPU: 1500 * time.Microsecond, MemoryPeak: 4096, ProcessesPeak: 9, OOMKills: 2, ForksRefused: 3}
	for version, files := range map[string]map[string]string{"v1": v1Files, "v2": v2Files} {
		h, err := Detect(tree(t, files))
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if h.V2() != (version == "v2") {
			t.Errorf("%s: V2() = %v", version, h.V2())
		}
		got, err := h.Open("/a").Usage()
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: usage (-want +got):\n%s", version, d)
		}
		pids, err := h.Open("/a").Pids()
		if d := cmp.Diff([]int{12, 34}, pids); err != nil || d != "" {
			t.Errorf("%s: pids: %v\n%s", version, err, d)
		}
	}
}

func TestLimitWrites(t *testing.T) {
	t.Parallel()
	limits := Limits{Memory: 1 << 20, CPU: 0.5, Processes: 7}
	for version, tc := range map[string]struct{ files, want map[string]string }{
		"v1": {v1Files, map[string]string{
			"memory/a/memory.limit_in_bytes": "1048576", "memory/a/memory.memsw.limit_in_bytes": "1048576",
			"cpu/a/cpu.cfs_quota_us": "50000", "pids/a/pids.max": "7",
		}},
		"v2": {v2Files, map[string]string{
			"a/memory.max": "1048576", "a/memory.swap.max": "0", "a/cpu.max": "50000 100000", "a/pids.max": "7",
		}},
	} {
		root := tree(t, tc.files)
		h, err := Detect(root)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Open("/a").Limit(limits); err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		var names []string
		for n := range tc.want {
			names = append(names, n)
		}
		if d := cmp.Diff(tc.want, contents(t, root, names...)); d != "" {
			t.Errorf("%s (-want +got):\n%s", version, d)
		}
	}
}

// An old kernel keeps no peaks: the meter remembers the highest it has seen.
func TestPeaksOfOldKernels(t *testing.T) {
	t.Parallel()
	root := tree(t, v2Files)
	for _, f := range []string{"a/memory.peak", "a/pids.peak"} {
		if err := os.Remove(filepath.Join(root, f)); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Detect(root)
	if err != nil {
		t.Fatal(err)
	}
	g := h.Open("/a")
	var got []string
	for _, n := range []string{"5", "8", "3"} {
		for _, f := range []string{"a/memory.current", "a/pids.current"} {
			if err := os.WriteFile(filepath.Join(root, f), []byte(n), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		u, err := g.Usage()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(u.MemoryPeak, u.ProcessesPeak))
	}
	if d := cmp.Diff([]string{"5 5", "8 8", "8 8"}, got); d != "" {
		t.Error(d)
	}
}

// The watch of a job reads its meter while others look whether its processes are dead.
func TestMetersTogether(t *testing.T) {
	t.Parallel()
	files := maps.Clone(v1Files)
	files["pids/a/pids.current"] = "2\n"
	root := tree(t, files)
	h, err := Detect(root)
	if err != nil {
		t.Fatal(err)
	}
	g := h.Open("/a").(*v1Group)
	for range 1000 {
		if _, err := g.Reset(9); err != nil { // from now on files stay open
			t.Fatal(err)
		}
		var readers errgroup.Group
		for range 4 {
			readers.Go(func() error { _, err := g.Usage(); return err })
			readers.Go(func() error { _, err := g.Pids(); return err })
			readers.Go(func() error { _, err := g.Processes(); return err })
		}
		if err := readers.Wait(); err != nil {
			t.Fatal(err)
		}
		g.kept.close()
	}
}

func TestDetectNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, files := range []map[string]string{
		{"cgroup.controllers": "cpu memory\n"},
		{"memory/cgroup.procs": "", "cpu/cgroup.procs": "", "cpuacct/cgroup.procs": ""},
	} {
		_, err := Detect(tree(t, files))
		if err == nil || !strings.Contains(err.Error(), "pids") {
			t.Errorf("Detect(%v) = %v, want an error that names pids", files, err)
		}
	}
}

// The rest runs against the kernel.

func realGroup(t *testing.T) Group {
	t.Helper()
	h, err := Detect(DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	base := fmt.Sprintf("/assay-test-%d", os.Getpid())
	g, err := h.Create(base + "/" + strings.ToLower(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.RemoveAll(ctx, base); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(DefaultRoot + "/*" + base); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return g
}

// start runs a shell script whose first act is to wait for the returned gate.
func start(t *testing.T, g Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read go; "+script)
	gate, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestKernelCountsOOMKill(t *testing.T) {
	testenv.Needs(t, "root")
	g := realGroup(t)
	if err := g.Limit(Limits{Memory: 256 << 20, CPU: 1, Processes: 10}); err != nil {
		t.Fatal(err)
	}
	if err := g.Limit(Limits{Memory: 16 << 20, CPU: 1, Processes: 10}); err != nil {
		t.Fatalf("lower the limits: %v", err)
	}
	err := start(t, g, `x=$(head -c 64000000 /dev/zero | tr '\0' a); echo ${#x}`).Wait()
	u, uerr := g.Usage()
	if uerr != nil {
		t.Fatal(uerr)
	}
	if u.OOMKills == 0 || u.MemoryPeak < 15<<20 || u.MemoryPeak > 17<<20 {
		t.Errorf("usage = %+v (program: %v), want an OOM kill at 16 MiB", u, err)
	}
}

func TestKernelCountsRefusedForksAndCPU(t *testing.T) {
	testenv.Needs(t, "root")
	g := realGroup(t)
	if err := g.Limit(Limits{Memory: 64 << 20, CPU: 1, Processes: 3}); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	err := start(t, g, `i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 10 & sleep 10 & sleep 10 & wait`).Wait()
	if !errors.As(err, &exit) {
		t.Fatalf("script ended with %v, want a refused fork", err)
	}
	u, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if u.ForksRefused == 0 || u.ProcessesPeak != 3 || u.CPU <= 0 {
		t.Errorf("usage = %+v, want refused forks, a peak of 3 and CPU time", u)
	}
}

func TestKillLeavesNobody(t *testing.T) {
	testenv.Needs(t, "root")
	g := realGroup(t)
	if err := g.Limit(Limits{Memory: 64 << 20, CPU: 1, Processes: 30}); err != nil {
		t.Fatal(err)
	}
	cmd := start(t, g, `f() { setsid sh -c 'while :; do :; done' & }; while :; do f; done 2>/dev/null`)
	deadline := time.Now().Add(10 * time.Second)
	for u, err := g.Usage(); u.ForksRefused == 0; u, err = g.Usage() {
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the bomb never reached its limit: %+v, %v", u, err)
		}
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := g.Remove(ctx); err != nil {
		t.Errorf("remove after kill: %v", err)
	}
}
