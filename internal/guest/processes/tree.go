package processes

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// markName is the variable that marks the processes of a program's tree.
const markName = "ASSAY_EXECUTION"

// signal sends a signal to the program, or to each process of its tree. SIGKILL to the tree leaves
// none of them.
func (p *program) signal(signal int, tree bool) {
	s := syscall.Signal(signal)
	if !tree {
		p.server.reaper.kill(p.pid, s)
		return
	}
	for range 100 { // processes may fork while they are found
		found := p.tree()
		for _, pid := range found {
			_ = syscall.Kill(pid, s)
		}
		if len(found) == 0 || s != syscall.SIGKILL {
			return
		}
	}
}

// kill sends a signal to a program that was not reaped yet, so that its number is its own.
func (r *reaper) kill(pid int, s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends[pid] != nil {
		_ = syscall.Kill(pid, s)
	}
}

// process is a process of the sandbox.
type process struct {
	pid, parent, session int
	zombie               bool
}

// tree returns the processes of the program's tree, without zombies.
func (p *program) tree() []int {
	all, self := processes(), os.Getpid()
	others := p.server.reaper.programs()
	in := map[int]bool{}
	if others[p.pid] {
		in[p.pid] = true
	}
	delete(others, p.pid)
	mark := []byte(markName + "=" + p.mark)
	for _, q := range all {
		if q.pid != self && !others[q.pid] && (q.session == p.pid || q.parent == self && marked(q.pid, mark)) {
			in[q.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, q := range all {
			if !in[q.pid] && in[q.parent] {
				in[q.pid], grown = true, true
			}
		}
	}
	var pids []int
	for _, q := range all {
		if in[q.pid] && !q.zombie {
			pids = append(pids, q.pid)
		}
	}
	return pids
}

// marked reports whether the environment with which a process started has the mark.
func marked(pid int, mark []byte) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, mark) {
			return true
		}
	}
	return false
}

// processes returns all visible processes.
func processes() (all []process) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if q, ok := parseStat(pid, stat); ok {
			all = append(all, q)
		}
	}
	return all
}

// parseStat parses /proc/PID/stat. The name before the last ")" may contain anything.
func parseStat(pid int, stat []byte) (process, bool) {
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 4 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(string(f[1]))
	session, err2 := strconv.Atoi(string(f[3]))
	return process{pid, parent, session, f[0][0] == 'Z'}, err1 == nil && err2 == nil
}
