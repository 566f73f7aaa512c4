package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// quickFor is for how long, at the least, moving one process makes moving the
// next one quick: twice as long was still quick, five times as long was not.
const quickFor = 5 * time.Millisecond

// own is the list of processes of the group that this process is in.
type own struct {
	mu    sync.Mutex
	moved atomic.Int64 // when a process was last moved, by Add or by PrepareMove; ns since 1970
	where string       // /proc/self/cgroup, when the list was opened
	fd    int
}

// PrepareMove has the kernel get ready for an Add that will follow in a few
// milliseconds, and does not wait for that. The first process that is moved after
// a pause waits until every processor has seen that processes are being moved (a
// grace period of RCU, 3 to 7 ms); those that follow need not. So the grace period
// passes while the process to be moved is being made. Without it a fork of a session
// takes 24% longer (fork_ms of bin/bench -scenario session -beside, in both of two rounds).
//
// It moves this process to the group where it is. It does nothing if that is
// not found, or if a process was moved just now. It may be called by several
// goroutines.
func (h *Hierarchy) PrepareMove() {
	now := time.Now().UnixNano()
	last := h.own.moved.Load()
	if since := time.Duration(now - last); since >= 0 && since < quickFor || !h.own.moved.CompareAndSwap(last, now) {
		return
	}
	go func() {
		_ = h.moveOurselves() // if it fails, the Add waits longer
	}()
}

func (h *Hierarchy) moveOurselves() error {
	o := &h.own
	o.mu.Lock()
	defer o.mu.Unlock()
	where, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	if o.where != string(where) {
		if o.where != "" {
			_ = unix.Close(o.fd)
			o.where = ""
		}
		if o.fd, err = h.ownProcesses(string(where)); err != nil {
			return err
		}
		o.where = string(where)
	}
	return put(o.fd, strconv.Itoa(os.Getpid()))
}

// ownProcesses opens the list of the processes of our group in one hierarchy, given
// /proc/self/cgroup. One will do: they share what is waited for.
func (h *Hierarchy) ownProcesses(where string) (fd int, err error) {
	file := ""
	for line := range strings.Lines(where) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		switch {
		case len(fields) != 3 || strings.HasPrefix(fields[2], "/.."): // outside of what is mounted here
		case h.v2 && fields[0] == "0":
			file = filepath.Join(h.root, fields[2], "cgroup.procs")
		case !h.v2 && slices.Contains(strings.Split(fields[1], ","), "pids"):
			file = filepath.Join(h.root, "pids", fields[2], "cgroup.procs")
		}
	}
	if file == "" {
		return -1, unix.ENOENT
	}
	// The path means another group where the file system was mounted from another
	// group: there we are not to go.
	pids, err := readPids(file)
	if err != nil {
		return -1, err
	}
	if !slices.Contains(pids, os.Getpid()) {
		return -1, unix.ESRCH
	}
	return unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
}
