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

// process is one process, from /proc.
type process struct {
	PID, Parent int
	Args        []string
	CPU         time.Duration // of its own and of children it has waited for
}

// clockTick is the unit of CPU times in /proc: USER_HZ, 100 on every Linux.
const clockTick = 10 * time.Millisecond

// readProcesses lists every process, by its id.
func readProcesses() (map[int]process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	all := make(map[int]process, len(dirs))
	for _, dir := range dirs {
		if p, ok := readProcess(dir); ok { // otherwise it has just ended
			all[p.PID] = p
		}
	}
	return all, nil
}

// readProcess reads the process of a directory of /proc, such as /proc/self. It may just have ended.
func readProcess(dir string) (p process, ok bool) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return p, false
	}
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return p, false
	}
	p.Args = strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
	p.PID, _ = strconv.Atoi(filepath.Base(dir))
	// The second field is the name in parentheses, which may have any characters.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 15 {
		return p, false
	}
	p.Parent, _ = strconv.Atoi(f[1])
	for _, field := range f[11:15] { // utime, stime, cutime, cstime
		ticks, _ := strconv.ParseInt(field, 10, 64)
		p.CPU += time.Duration(ticks) * clockTick
	}
	return p, true
}

// descendants returns root and all processes below it, without the subtrees of not.
func descendants(all map[int]process, root int, not ...int) (out []process) {
	skip := map[int]bool{}
	for _, pid := range not {
		skip[pid] = true
	}
	children := map[int][]int{}
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p.PID)
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

// Env returns a variable of a process's environment, which has the addresses of the parts of the
// bench's own fleet.
func (p process) Env(name string) (string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	if err != nil {
		return "", err
	}
	value := ""
	for v := range strings.SplitSeq(string(raw), "\x00") {
		if after, ok := strings.CutPrefix(v, name+"="); ok {
			value = after // the last one wins, as in the process itself
		}
	}
	if value == "" {
		return "", fmt.Errorf("process %d has no %s", p.PID, name)
	}
	return value, nil
}

// Kilobytes returns a field of a file in /proc/PID, such as VmHWM of status.
func (p process) Kilobytes(file, field string) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == field+":" {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("process %d: %s has no %s", p.PID, file, field)
}

// Namespaces returns how deep below the bench's own the pid namespace of a process is, and whether
// the process is the first one there.
func (p process) Namespaces() (depth int, first bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
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
