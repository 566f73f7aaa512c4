package cgroup

import (
	"os"

	"golang.org/x/sys/unix"
)

// Reusable is a Group whose peaks can be reset, so that the next job need not
// pay for making another: on cgroup v1 a group costs a millisecond to make and
// to remove, in four hierarchies, and the memory controller keeps a removed one
// as long as a page of cache is charged to it. On v2 a group is one directory,
// and its peaks cannot be reset before kernel 6.12: groups are used once.
type Reusable interface {
	Group
	// Reset forgets the peaks of memory and of processes; the latter only if it
	// is above least, since it costs more. With it go the limit of processes and
	// the count of refused forks: reset says so. The group must be empty.
	Reset(least int64) (reset bool, err error)
	// Charged returns the memory that is charged to the group now, in bytes: with
	// no process left, cache of files, a tmpfs until its last mount is gone, and
	// what the kernel keeps of its own.
	Charged() (int64, error)
	// Pinned returns what of that is no cache of files, in bytes: a limit below it
	// is refused.
	Pinned() (int64, error)
}

var _ Reusable = (*v1Group)(nil)

// Reset implements Reusable. There is no way to reset pids.peak but to make the
// group anew in that one hierarchy.
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
