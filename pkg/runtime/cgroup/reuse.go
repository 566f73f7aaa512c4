package cgroup

import (
	"os"

	"golang.org/x/sys/unix"
)

// Reusable is a Group with resettable peaks, so that the next job can reuse it. On cgroup v1 a
// group takes a millisecond to create and remove, in four hierarchies. The memory controller keeps
// a removed group as long as cache is charged to it. On v2 a group is one directory, and its peaks
// cannot be reset before kernel 6.12, so groups are used once.
type Reusable interface {
	Group
	// Reset resets the peak of memory, and the peak of processes if it is above least, because that
	// costs more. The latter also resets the limit of processes and the count of refused forks; then
	// reset is true. The group must be empty.
	Reset(least int64) (reset bool, err error)
	// Charged returns the bytes charged to the group now. Without processes this is file cache, a
	// tmpfs until its last unmount, and the kernel's own memory.
	Charged() (int64, error)
	// Pinned returns the charged bytes except file cache. The kernel rejects a limit below them.
	Pinned() (int64, error)
}

var _ Reusable = (*v1Group)(nil)

// Reset implements Reusable. pids.peak can only be reset by recreating the group in that hierarchy.
func (g *v1Group) Reset(least int64) (bool, error) {
	g.kept.keep()
	if err := g.kept.writeInt(g.file("memory", "memory.max_usage_in_bytes"), 0); err != nil {
		return false, err
	}
	g.peak.clear()
	if !g.kept.exists(g.file("pids", "pids.peak")) {
		return false, nil
	}
	peak, err := g.kept.readInt(g.file("pids", "pids.peak"))
	if err != nil || peak <= least {
		return false, err
	}
	dir := g.file("pids", "")
	g.kept.forget(dir)
	if err := unix.Rmdir(dir); err != nil {
		return false, &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return true, os.Mkdir(dir, 0o755)
}

// Charged implements Reusable.
func (g *v1Group) Charged() (int64, error) {
	return g.kept.readInt(g.file("memory", "memory.usage_in_bytes"))
}

// Pinned implements Reusable.
func (g *v1Group) Pinned() (int64, error) {
	n, err := g.Charged()
	for _, list := range []string{"active_file", "inactive_file"} {
		if err != nil {
			return 0, err
		}
		var cache int64
		cache, err = g.kept.readKey(g.file("memory", "memory.stat"), list)
		n -= cache
	}
	return max(n, 0), err
}
