package cgroup

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ThreadTime is the kernel's accounting of one thread's time.
type ThreadTime struct {
	Ran    time.Duration // on a core
	Waited time.Duration // runnable without a core; a wait is included after its end
}

// TimeOf reads /proc/TID/schedstat, which exists in kernels with CONFIG_SCHED_INFO, as all
// distributions have. The error is os.ErrNotExist if the thread is gone.
func TimeOf(tid int) (t ThreadTime, err error) {
	file := "/proc/" + strconv.Itoa(tid) + "/schedstat"
	text, err := read(file)
	if err != nil {
		return t, err
	}
	if _, err := fmt.Sscan(text, (*int64)(&t.Ran), (*int64)(&t.Waited)); err != nil {
		return t, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// Runnable reports whether a thread runs or waits for a core.
func Runnable(tid int) (bool, error) {
	text, err := read("/proc/" + strconv.Itoa(tid) + "/stat")
	if err != nil {
		return false, err
	}
	return strings.HasPrefix(text[strings.LastIndex(text, ")")+1:], " R"), nil // the name may contain anything
}

// Threads implements Group.
func (g *v1Group) Threads() ([]int, error) { return readPids(g.file("pids", "tasks")) }

// Throttled implements Group.
func (g *v1Group) Throttled() (time.Duration, error) {
	n, err := g.kept.readKey(g.file("cpu", "cpu.stat"), "throttled_time")
	return time.Duration(n), err
}

// Threads implements Group.
func (g *v2Group) Threads() ([]int, error) { return readPids(g.file("cgroup.threads")) }

// Throttled implements Group.
func (g *v2Group) Throttled() (time.Duration, error) {
	n, err := readKey(g.file("cpu.stat"), "throttled_usec")
	return time.Duration(n) * time.Microsecond, err
}
