package processes

import (
	"sync"
	"syscall"
)

// reaper waits for all children of this process: the programs, and the orphans of the sandbox.
type reaper struct {
	mu      sync.Mutex
	started *sync.Cond
	starts  int // so far
	ends    map[int]chan<- Status
}

func newReaper() *reaper {
	r := &reaper{ends: map[int]chan<- Status{}}
	r.started = sync.NewCond(&r.mu)
	return r
}

// start has begin start a child, whose end is then sent to the channel.
func (r *reaper) start(end chan<- Status, begin func() (pid int, err error)) (int, error) {
	r.mu.Lock() // run finds the child's channel even if it ends at once
	defer r.mu.Unlock()
	pid, err := begin()
	if err != nil {
		return 0, err
	}
	r.ends[pid] = end
	r.starts++
	r.started.Signal()
	return pid, nil
}

// run reaps forever.
func (r *reaper) run() {
	for {
		r.mu.Lock()
		starts := r.starts
		r.mu.Unlock()
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, 0, &usage)
		r.mu.Lock()
		if err == syscall.ECHILD { // without children there are no orphans either
			for r.starts == starts {
				r.started.Wait()
			}
		}
		if end := r.ends[pid]; err == nil && end != nil && (status.Exited() || status.Signaled()) {
			delete(r.ends, pid)
			end <- statusOf(status, &usage)
		}
		r.mu.Unlock()
	}
}

// programs returns the running programs.
func (r *reaper) programs() map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pids := make(map[int]bool, len(r.ends))
	for pid := range r.ends {
		pids[pid] = true
	}
	return pids
}

func statusOf(s syscall.WaitStatus, u *syscall.Rusage) Status {
	cpu := float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
	if s.Signaled() {
		return Status{Code: -1, Signal: int(s.Signal()), CPUMS: cpu}
	}
	return Status{Code: s.ExitStatus(), CPUMS: cpu}
}
