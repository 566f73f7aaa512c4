package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// proc is one process, as /proc shows it.
type proc struct {
	pid, parent int
	args        []string
	cpu         time.Duration // of its own and of children it has waited for
}

// clockTick is the unit of CPU times in /proc: USER_HZ, 100 on every Linux.
const clockTick = 10 * time.Millisecond

// processes lists every process.
func processes() (map[int]proc, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	all := make(map[int]proc, len(dirs))
	for _, dir := range dirs {
		if p, ok := readProc(dir); ok { // else it has just ended
			all[p.pid] = p
		}
	}
	return all, nil
}

func readProc(dir string) (p proc, ok bool) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return p, false
	}
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return p, false
	}
	p.args = strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
	p.pid, _ = strconv.Atoi(filepath.Base(dir))
	// The second field is the name in parentheses, which may hold anything.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 15 {
		return p, false
	}
	p.parent, _ = strconv.Atoi(f[1])
	for _, field := range f[11:15] { // utime, stime, cutime, cstime
		ticks, _ := strconv.ParseInt(field, 10, 64)
		p.cpu += time.Duration(ticks) * clockTick
	}
	return p, true
}

// below returns root and everything below it, leaving out the subtrees of not.
func below(all map[int]proc, root int, not ...int) (out []proc) {
	skip := map[int]bool{}
	for _, pid := range not {
		skip[pid] = true
	}
	children := map[int][]int{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p.pid)
	}
	var walk func(int)
	walk = func(pid int) {
		if p, ok := all[pid]; ok && !skip[pid] {
			out = append(out, p)
			for _, c := range children[pid] {
				walk(c)
			}
		}
	}
	walk(root)
	return out
}

// child returns the fleet's process of that program.
func (t *target) child(program string) (proc, error) {
	if t.cmd == nil {
		return proc{}, errNotOurs
	}
	all, err := processes()
	if err != nil {
		return proc{}, err
	}
	for _, p := range below(all, t.cmd.Process.Pid) {
		if filepath.Base(p.args[0]) == program {
			return p, nil
		}
	}
	return proc{}, fmt.Errorf("the fleet has no process %s", program)
}

// env returns a variable of a process's environment: how a fleet of our own
// tells where its parts are.
func (p proc) env(name string) (string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
	if err != nil {
		return "", err
	}
	value := ""
	for v := range strings.SplitSeq(string(raw), "\x00") {
		if after, ok := strings.CutPrefix(v, name+"="); ok {
			value = after // the last one wins, as for the process itself
		}
	}
	if value == "" {
		return "", fmt.Errorf("process %d has no %s", p.pid, name)
	}
	return value, nil
}

// kilobytes returns a field of a file in /proc/PID, such as VmHWM of status.
func (p proc) kilobytes(file, field string) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == field+":" {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("process %d: %s has no %s", p.pid, file, field)
}

// namespaces returns how deep below ours the pid namespace of a process is, and
// whether it is the first one there.
func (p proc) namespaces() (depth int, first bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(raw)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(pids)
			return len(f) - 1, len(f) > 1 && f[len(f)-1] == "1"
		}
	}
	return 0, false
}

// controlPlaneCPU is the CPU time so far of dispatcher, Postgres and NATS (which
// runs inside `assay dev`): the whole tree without the worker and containerd.
func (t *target) controlPlaneCPU() (time.Duration, error) {
	var not []int
	for _, program := range []string{"worker", "containerd"} {
		if p, err := t.child(program); err == nil {
			not = append(not, p.pid)
		} else if err == errNotOurs {
			return 0, err
		}
	}
	all, err := processes()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, p := range below(all, t.cmd.Process.Pid, not...) {
		sum += p.cpu
	}
	return sum, nil
}
