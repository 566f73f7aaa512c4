// Package cgroup creates, limits, meters and destroys the control groups of jobs, alike on cgroup
// v1 and v2.
//
// It writes to the cgroup file system directly instead of using a container runtime. A warm slot
// gets its limits only when a job takes it, and a cell's jobs have groups outside of all
// containers.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits are the limits of a group's processes together.
type Limits struct {
	Memory    int64   // bytes; swap is off
	CPU       float64 // cores
	Processes int64   // processes and threads
}

// The weights of a group among its siblings, in cgroup v1's unit. The default is 1024.
const (
	usualShares = 1024
	yieldShares = usualShares / yieldBy
	usualWeight = 100 // the same in cgroup v2's unit
	yieldWeight = usualWeight / yieldBy
	yieldBy     = 16
)

// Usage is a group's usage so far, as the kernel counted it.
type Usage struct {
	CPU           time.Duration
	MemoryPeak    int64 // bytes
	ProcessesPeak int64 // maximum of simultaneous processes and threads
	OOMKills      int64 // processes killed at the memory limit
	ForksRefused  int64 // forks refused by the kernel
}

// Since returns the usage since from was read. Peaks are unchanged.
func (u Usage) Since(from Usage) Usage {
	u.CPU -= from.CPU
	u.OOMKills -= from.OOMKills
	u.ForksRefused -= from.ForksRefused
	return u
}

// Group is an existing control group. It is not safe for concurrent use, except that Kill, Hasten
// and reading methods may run at any time.
type Group interface {
	// Path returns the path relative to the hierarchy, for linux.cgroupsPath of the OCI runtime
	// specification.
	Path() string
	// Limit sets limits; it may be called repeatedly.
	Limit(Limits) error
	// Add moves a process, with all its threads, into the group.
	Add(pid int) error
	// Has reports whether a process is in the group, in each of its hierarchies.
	Has(pid int) (bool, error)
	// Pids lists the group's processes, as this process's namespace sees them.
	Pids() ([]int, error)
	// Processes counts the processes with their threads, including unreaped ones. Zero means that
	// none is left.
	Processes() (int64, error)
	// Usage reads the meters. For peaks that the kernel lacks it returns the highest value read so
	// far.
	Usage() (Usage, error)
	// Progress reads the CPU time and the OOM kills only, for frequent looks at a running program. It
	// also samples the peaks that the kernel lacks.
	Progress() (Usage, error)
	// Threads lists the threads of the group, as this process's namespace sees them.
	Threads() ([]int, error)
	// Throttled returns how long the group was throttled by its own CPU limit.
	Throttled() (time.Duration, error)
	// SocketMemory returns the bytes of the group's TCP and UDP sockets outside of its memory limit:
	// version 1 counts them separately, and admits some above their limit.
	SocketMemory() (int64, error)
	// Kill sends SIGKILL to every process of the group, including new forks. It does not wait for
	// their end.
	Kill() error
	// Yield lowers the group's priority against its siblings when cores are short. It may run at any
	// time, and applies until the next Limit.
	Yield() error
	// Hasten removes the CPU limit of a group that is being killed, because dying takes CPU time:
	// with a small share it could take minutes. It may run at any time, and applies until the next
	// Limit.
	Hasten() error
	// Remove kills the remaining processes and removes the group.
	Remove(ctx context.Context) error
}

// Hierarchy is the cgroup file system of this host.
type Hierarchy struct {
	root string
	v2   bool
	own  processList
}

// DefaultRoot is the usual mount point of the cgroup file system.
const DefaultRoot = "/sys/fs/cgroup"

// Detect finds the hierarchy below root. A hybrid host with controllers on v1 counts as v1. The
// error names missing parts.
func Detect(root string) (*Hierarchy, error) {
	h := &Hierarchy{root: root}
	have, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if h.v2 = err == nil; h.v2 {
		return h, missing(strings.Fields(string(have)), "cpu", "memory", "pids")
	}
	var dirs []string
	for _, c := range v1Controllers {
		if _, err := os.Stat(filepath.Join(root, c, "cgroup.procs")); err == nil {
			dirs = append(dirs, c)
		}
	}
	return h, missing(dirs, v1Controllers...)
}

func missing(have []string, need ...string) error {
	var errs []error
	for _, n := range need {
		found := false
		for _, h := range have {
			found = found || h == n
		}
		if !found {
			errs = append(errs, fmt.Errorf("cgroup controller %s is not available; enable it on the kernel command line or in the parent group", n))
		}
	}
	return errors.Join(errs...)
}

// V2 reports whether the controllers are on cgroup v2.
func (h *Hierarchy) V2() bool { return h.v2 }

// Create creates the group at path, such as /assay-worker/7, and its parents. It reuses an existing
// group.
func (h *Hierarchy) Create(path string) (Group, error) {
	g := h.Open(path)
	var err error
	if h.v2 {
		err = createV2(h.root, path)
	} else {
		for _, c := range v1Controllers {
			if err = os.MkdirAll(filepath.Join(h.root, c, path), 0o755); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create cgroup %s: %w", path, err)
	}
	return g, nil
}

// Open returns the group at path without creating it.
func (h *Hierarchy) Open(path string) Group {
	if h.v2 {
		return &v2Group{dir: filepath.Join(h.root, path), path: path, moved: &h.own.moved}
	}
	return &v1Group{root: h.root, path: path, moved: &h.own.moved}
}

// CPU returns the CPU time of the group at path and of all its descendants, including removed ones. The error
// wraps os.ErrNotExist if there is no such group.
func (h *Hierarchy) CPU(path string) (time.Duration, error) {
	if h.v2 {
		n, err := readKey(filepath.Join(h.root, path, "cpu.stat"), "usage_usec")
		return time.Duration(n) * time.Microsecond, err
	}
	n, err := readInt(filepath.Join(h.root, "cpuacct", path, "cpuacct.usage"))
	return time.Duration(n), err
}

// RemoveAll kills all processes in the group at path and its descendants, and removes the groups in
// every controller. A missing path is not an error.
func (h *Hierarchy) RemoveAll(ctx context.Context, path string) error {
	roots := []string{h.root}
	if !h.v2 {
		found, err := filepath.Glob(filepath.Join(h.root, "*"))
		if err != nil {
			return err
		}
		roots = found // runtimes create groups in controllers that we do not use
	}
	var errs []error
	for _, r := range roots {
		errs = append(errs, removeTree(ctx, filepath.Join(r, path)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove cgroup %s: %w", path, err)
	}
	return nil
}

func removeTree(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(ctx, filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return removeDir(ctx, dir)
}

// removeDir kills the processes in dir until the kernel removes it: a killed process keeps its
// group busy until it is reaped.
func removeDir(ctx context.Context, dir string) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		if err := killDir(dir); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is still busy: %w", dir, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// killDir sends SIGKILL to every process of one directory until a pass finds no new one, to include
// processes forked between reading and killing.
func killDir(dir string) error {
	seen := map[int]bool{}
	for fresh := true; fresh; {
		pids, err := readPids(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return ignoreGone(err)
		}
		fresh = false
		for _, pid := range pids {
			fresh = fresh || !seen[pid]
			seen[pid] = true
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill %d: %w", pid, err)
			}
		}
	}
	return nil
}

func readPids(file string) ([]int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parsePids(file, string(data))
}

func parsePids(file, text string) ([]int, error) {
	var pids []int
	for f := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if pid > 0 { // 0 is a process outside of our pid namespace
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
