package cgroup

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// v1Controllers are the controllers for jobs; each has its own tree.
var v1Controllers = []string{"memory", "cpu", "cpuacct", "pids"}

type v1Group struct {
	root, path string
	peak       highest // of processes, if the kernel does not record it
	kept       fileCache
	yielded    atomic.Bool
	moved      *atomic.Int64 // the hierarchy's, see PrepareMove
}

var _ Group = (*v1Group)(nil)

func (g *v1Group) Path() string { return g.path }

func (g *v1Group) file(controller, name string) string {
	return filepath.Join(g.root, controller, g.path, name)
}

func (g *v1Group) Limit(l Limits) error {
	if err := g.limitMemory(l.Memory); err != nil {
		return err
	}
	if err := g.limitSockets(l.Memory); err != nil {
		return err
	}
	if err := g.kept.writeInt(g.file("cpu", "cpu.cfs_quota_us"), quota(l.CPU)); err != nil {
		return err
	}
	if g.yielded.Swap(false) {
		if err := g.kept.writeInt(g.file("cpu", "cpu.shares"), usualShares); err != nil {
			return err
		}
	}
	return g.kept.writeInt(g.file("pids", "pids.max"), l.Processes)
}

// limitMemory sets memory and memory+swap to the same number. The first may never exceed the
// second, so the order depends on the direction.
func (g *v1Group) limitMemory(n int64) error {
	mem, swap := g.file("memory", "memory.limit_in_bytes"), g.file("memory", "memory.memsw.limit_in_bytes")
	if !g.kept.exists(swap) {
		// No swap accounting: prevent swapping of the group's pages instead.
		if err := g.kept.writeInt(g.file("memory", "memory.swappiness"), 0); err != nil {
			return err
		}
		return g.kept.writeInt(mem, n)
	}
	if err := g.kept.writeInt(mem, n); err == nil {
		return g.kept.writeInt(swap, n)
	} else if !errors.Is(err, unix.EINVAL) {
		return err
	}
	if err := g.kept.writeInt(swap, n); err != nil {
		return err
	}
	return g.kept.writeInt(mem, n)
}

// socketShare is the part of a group's memory that its sockets may use in addition.
const socketShare = 8

// limitSockets limits the buffers of a group's TCP and UDP sockets, which version 1 counts
// separately from memory, and only with a limit. It applies to sockets created later.
func (g *v1Group) limitSockets(memory int64) error {
	file := g.file("memory", "memory.kmem.tcp.limit_in_bytes")
	if !g.kept.exists(file) { // the kernel lacks the feature
		return nil
	}
	return g.kept.writeInt(file, memory/socketShare)
}

func (g *v1Group) Add(pid int) error {
	for _, c := range v1Controllers {
		if err := g.kept.writeInt(g.file(c, "cgroup.procs"), int64(pid)); err != nil {
			return err
		}
	}
	g.moved.Store(time.Now().UnixNano())
	return nil
}

// Pids opens the list each time, because a list that stays open is cached while it is read at least
// once a second.
func (g *v1Group) Pids() ([]int, error) { return readPids(g.file("pids", "cgroup.procs")) }

func (g *v1Group) Processes() (int64, error) { return g.kept.readInt(g.file("pids", "pids.current")) }

func (g *v1Group) Usage() (u Usage, err error) {
	if u, err = g.Progress(); err != nil {
		return u, err
	}
	if u.MemoryPeak, err = g.kept.readInt(g.file("memory", "memory.max_usage_in_bytes")); err != nil {
		return u, err
	}
	if u.ForksRefused, err = g.kept.readKey(g.file("pids", "pids.events"), "max"); err != nil {
		return u, err
	}
	if g.countsProcesses() {
		u.ProcessesPeak, err = g.kept.readInt(g.file("pids", "pids.peak"))
	}
	return u, err
}

// Progress implements Group.
func (g *v1Group) Progress() (u Usage, err error) {
	cpu, err := g.kept.readInt(g.file("cpuacct", "cpuacct.usage"))
	if err != nil {
		return u, err
	}
	u.CPU = time.Duration(cpu)
	if u.OOMKills, err = g.kept.readKey(g.file("memory", "memory.oom_control"), "oom_kill"); err != nil {
		return u, err
	}
	if !g.countsProcesses() {
		u.ProcessesPeak, err = processesPeak(filepath.Join(g.root, "pids", g.path), &g.peak)
	}
	return u, err
}

// countsProcesses reports whether the kernel keeps the peak of processes.
func (g *v1Group) countsProcesses() bool { return g.kept.exists(g.file("pids", "pids.peak")) }

// SocketMemory implements Group.
func (g *v1Group) SocketMemory() (int64, error) {
	n, _, err := readOptional(g.file("memory", "memory.kmem.tcp.usage_in_bytes"))
	return n, err
}

// Yield implements Group.
func (g *v1Group) Yield() error {
	g.yielded.Store(true)
	return ignoreGone(writeInt(g.file("cpu", "cpu.shares"), yieldShares))
}

// Hasten implements Group.
func (g *v1Group) Hasten() error {
	return ignoreGone(writeInt(g.file("cpu", "cpu.cfs_quota_us"), -1))
}

// Kill first forbids new processes, so that a fork bomb cannot outrun it.
func (g *v1Group) Kill() error {
	if err := writeInt(g.file("pids", "pids.max"), 0); err != nil {
		return ignoreGone(err)
	}
	return killDir(filepath.Join(g.root, "pids", g.path))
}

func (g *v1Group) Remove(ctx context.Context) error {
	g.kept.close()
	if err := g.Kill(); err != nil {
		return err
	}
	var errs []error
	for _, c := range v1Controllers {
		errs = append(errs, removeDir(ctx, filepath.Join(g.root, c, g.path)))
	}
	return errors.Join(errs...)
}

// processesPeak reads pids.peak, which exists since kernel 6.6. Before, it tracks the highest
// pids.current it has read.
func processesPeak(dir string, seen *highest) (int64, error) {
	n, ok, err := readOptional(filepath.Join(dir, "pids.peak"))
	if ok || err != nil {
		return n, err
	}
	if n, err = readInt(filepath.Join(dir, "pids.current")); err != nil {
		return 0, err
	}
	return seen.add(n), nil
}
