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

// quickFor is the minimum time for which one move of a process makes the next one fast. Twice as
// long was still fast in measurements, five times as long was not.
const quickFor = 5 * time.Millisecond

// processList is the process list of this process's own group.
type processList struct {
	mu    sync.Mutex
	moved atomic.Int64 // when a process was last moved, by Add or PrepareMove; ns since 1970
	where string       // /proc/self/cgroup, when the list was opened
	fd    int
}

// PrepareMove makes the kernel prepare for an Add within a few milliseconds, without waiting. The
// first move of a process after a pause waits for a grace period of RCU (3 to 7 ms); later ones do
// not. So the grace period passes while the process is being created. Without it a fork of a
// session takes 24% longer (fork_ms of bin/bench -scenario session -beside, in both of two rounds).
//
// It moves this process to its current group. It does nothing if that is not found, or after a
// recent move. It is safe for concurrent use.
func (h *Hierarchy) PrepareMove() {
	now := time.Now().UnixNano()
	last := h.own.moved.Load()
	if since := time.Duration(now - last); since >= 0 && since < quickFor || !h.own.moved.CompareAndSwap(last, now) {
		return
	}
	go func() {
		_ = h.moveOurselves() // after a failure the Add waits longer
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

// ownProcesses opens the process list of our group in one hierarchy, given /proc/self/cgroup. One
// hierarchy suffices, because all share the grace period.
func (h *Hierarchy) ownProcesses(where string) (fd int, err error) {
	file := ""
	for line := range strings.Lines(where) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		switch {
		case len(fields) != 3 || strings.HasPrefix(fields[2], "/.."): // outside of the mounted hierarchy
		case h.v2 && fields[0] == "0":
			file = filepath.Join(h.root, fields[2], "cgroup.procs")
		case !h.v2 && slices.Contains(strings.Split(fields[1], ","), "pids"):
			file = filepath.Join(h.root, "pids", fields[2], "cgroup.procs")
		}
	}
	if file == "" {
		return -1, unix.ENOENT
	}
	// If the file system was mounted from another group, the path means another group. Do not move
	// there.
	pids, err := readPids(file)
	if err != nil {
		return -1, err
	}
	if !slices.Contains(pids, os.Getpid()) {
		return -1, unix.ESRCH
	}
	return unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
}
