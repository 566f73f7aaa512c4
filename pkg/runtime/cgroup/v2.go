package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

type v2Group struct {
	dir, path  string
	peak       highest // of processes, if the kernel does not record it
	memoryPeak highest // likewise, in bytes
	yielded    atomic.Bool
	moved      *atomic.Int64 // the hierarchy's, see PrepareMove
}

var _ Group = (*v2Group)(nil)

// createV2 creates every directory of the path and delegates the controllers. The last one gets no
// subtree control, because it contains processes.
func createV2(root, path string) error {
	dir := root
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err := write(filepath.Join(dir, "cgroup.subtree_control"), "+cpu +memory +pids"); err != nil {
			return fmt.Errorf("hand controllers down from %s: %w", dir, err)
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

func (g *v2Group) Path() string { return g.path }

func (g *v2Group) file(name string) string { return filepath.Join(g.dir, name) }

func (g *v2Group) Limit(l Limits) error {
	if err := writeInt(g.file("memory.max"), l.Memory); err != nil {
		return err
	}
	// Missing in kernels built or booted without swap.
	if err := write(g.file("memory.swap.max"), "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := write(g.file("cpu.max"), fmt.Sprintf("%d %d", quota(l.CPU), period.Microseconds())); err != nil {
		return err
	}
	if g.yielded.Swap(false) {
		if err := writeInt(g.file("cpu.weight"), usualWeight); err != nil {
			return err
		}
	}
	return writeInt(g.file("pids.max"), l.Processes)
}

func (g *v2Group) Add(pid int) error {
	if err := writeInt(g.file("cgroup.procs"), int64(pid)); err != nil {
		return err
	}
	g.moved.Store(time.Now().UnixNano())
	return nil
}

func (g *v2Group) Pids() ([]int, error) { return readPids(g.file("cgroup.procs")) }

func (g *v2Group) Processes() (int64, error) { return readInt(g.file("pids.current")) }

func (g *v2Group) Usage() (u Usage, err error) {
	cpu, err := readKey(g.file("cpu.stat"), "usage_usec")
	if err != nil {
		return u, err
	}
	u.CPU = time.Duration(cpu) * time.Microsecond
	if u.MemoryPeak, err = g.readMemoryPeak(); err != nil {
		return u, err
	}
	if u.OOMKills, err = readKey(g.file("memory.events"), "oom_kill"); err != nil {
		return u, err
	}
	if u.ForksRefused, err = readKey(g.file("pids.events"), "max"); err != nil {
		return u, err
	}
	u.ProcessesPeak, err = processesPeak(g.dir, &g.peak)
	return u, err
}

// Progress implements Group. Most files are read in any case, for peaks on older kernels.
func (g *v2Group) Progress() (Usage, error) { return g.Usage() }

// readMemoryPeak reads memory.peak, which exists since kernel 5.19. Before, it tracks the highest
// memory.current it has read.
func (g *v2Group) readMemoryPeak() (int64, error) {
	n, ok, err := readOptional(g.file("memory.peak"))
	if ok || err != nil {
		return n, err
	}
	if n, err = readInt(g.file("memory.current")); err != nil {
		return 0, err
	}
	return g.memoryPeak.add(n), nil
}

// SocketMemory implements Group.
func (g *v2Group) SocketMemory() (int64, error) { return 0, nil }

// Yield implements Group.
func (g *v2Group) Yield() error {
	g.yielded.Store(true)
	return ignoreGone(writeInt(g.file("cpu.weight"), yieldWeight))
}

// Hasten implements Group.
func (g *v2Group) Hasten() error {
	return ignoreGone(write(g.file("cpu.max"), "max"))
}

// Kill uses cgroup.kill, which exists since kernel 5.14.
func (g *v2Group) Kill() error {
	err := write(g.file("cgroup.kill"), "1")
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := writeInt(g.file("pids.max"), 0); err != nil {
		return ignoreGone(err)
	}
	return killDir(g.dir)
}

func (g *v2Group) Remove(ctx context.Context) error {
	if err := g.Kill(); err != nil {
		return err
	}
	return removeDir(ctx, g.dir)
}
