package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// cpu is the CPU time so far of the parts of the bench's own fleet. It complements the rate of jobs
// with their cost, which is the same on a busy machine.
type cpu map[string]time.Duration

// cpuNow reads the CPU time of the dispatcher, the worker, Postgres, the rest (NATS, containerd and
// `assay dev`), the sandboxes, and the bench itself.
func (t *target) cpuNow() (cpu, error) {
	if t.cmd == nil {
		return nil, errNotOurs
	}
	all, err := readProcesses()
	if err != nil {
		return nil, err
	}
	out := cpu{}
	if self, ok := readProcess("/proc/self"); ok {
		out["client"] = self.CPU
	}
	for _, p := range descendants(all, t.cmd.Process.Pid) {
		part := "rest"
		switch name := filepath.Base(p.Args[0]); {
		case name == "dispatcher", name == "worker":
			part = name
		case strings.HasPrefix(name, "postgres"):
			part = "postgres"
		}
		out[part] += p.CPU
	}
	out["sandboxes"], err = t.sandboxCPU(all)
	return out, err
}

// sandboxCPU returns the CPU time of the worker's control group. It finds the group by a member:
// any process that a shim of this fleet's containerd has started.
func (t *target) sandboxCPU(all map[int]process) (time.Duration, error) {
	for _, shim := range all {
		if !strings.Contains(filepath.Base(shim.Args[0]), "containerd-shim") || !strings.Contains(strings.Join(shim.Args, " "), t.dir) {
			continue
		}
		for _, p := range descendants(all, shim.PID) {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.PID))
			if err != nil {
				continue
			}
			if m := regexp.MustCompile(`:/(assay-[0-9a-f]+)/`).FindSubmatch(raw); m != nil {
				return groupCPU(string(m[1]))
			}
		}
	}
	return 0, nil // no containers run
}

// groupCPU reads the CPU time of a control group, on cgroup v1 or v2.
func groupCPU(name string) (time.Duration, error) {
	if raw, err := os.ReadFile("/sys/fs/cgroup/cpuacct/" + name + "/cpuacct.usage"); err == nil {
		ns, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		return time.Duration(ns), err
	}
	raw, err := os.ReadFile("/sys/fs/cgroup/" + name + "/cpu.stat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if us, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(us), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("cpu.stat of %s has no usage_usec", name)
}

// perJob returns the cost of n jobs since before, in milliseconds by part.
func (c cpu) perJob(before cpu, n int) map[string]float64 {
	out := map[string]float64{}
	var sum time.Duration
	for part, d := range c {
		d -= before[part]
		sum += d
		out[part] = Round(d.Seconds()*1000/float64(max(n, 1)), 3)
	}
	out["all"] = Round(sum.Seconds()*1000/float64(max(n, 1)), 3)
	return out
}
