// Package cgroup makes, limits, meters and destroys the control groups that
// jobs run in, the same way on cgroup v1 and v2.
//
// It writes to the cgroup file system itself rather than through a runtime: a
// warm slot gets its limits only when a job takes it, and a cell's jobs have
// groups that no container engine knows of.
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

// Limits is what the processes of a group may use together.
type Limits struct {
	Memory    int64   // bytes; swap is off
	CPU       float64 // cores
	Processes int64   // processes and threads
}

// The weights of a group among its siblings, in cgroup v1's unit, of which 1024 is usual.
const (
	usualShares = 1024
	yieldShares = usualShares / yieldBy
	usualWeight = 100 // the same in cgroup v2's
	yieldWeight = usualWeight / yieldBy
	yieldBy     = 16
)

// Usage is what a group has used so far, as the kernel counted it.
type Usage struct {
	CPU           time.Duration
	MemoryPeak    int64 // bytes
	ProcessesPeak int64 // processes and threads at once
	OOMKills      int64 // processes that the kernel killed at the memory limit
	ForksRefused  int64 // times that the kernel refused a process or thread
}

// Since returns what was used after from was read. Peaks are kept as they are.
func (u Usage) Since(from Usage) Usage {
	u.CPU -= from.CPU
	u.OOMKills -= from.OOMKills
	u.ForksRefused -= from.ForksRefused
	return u
}

// Group is one control group that exists. It is not safe for concurrent use,
// except that Kill, Hasten and what only reads may run at any time.
type Group interface {
	// Path names the group relative to the hierarchy, as linux.cgroupsPath of
	// the OCI runtime specification wants it.
	Path() string
	// Limit sets limits; it may be called again.
	Limit(Limits) error
	// Add moves a process, with all its threads, into the group.
	Add(pid int) error
	// Has reports whether a process is in the group, in each of its hierarchies.
	Has(pid int) (bool, error)
	// Pids lists the processes of the group, as this process sees them.
	Pids() ([]int, error)
	// Processes counts what Pids lists, threads each, and what is dead but not
	// reaped: at zero nothing is left.
	Processes() (int64, error)
	// Usage reads the meters. Peaks that the kernel does not keep are the
	// highest that Usage has seen.
	Usage() (Usage, error)
	// Threads lists the threads of the group's processes, as this process sees them.
	Threads() ([]int, error)
	// Throttled is for how long the group had used up its share of CPU, by its own limit.
	Throttled() (time.Duration, error)
	// SocketMemory is how many bytes the group's TCP and UDP sockets hold that are not
	// part of its memory: version 1 counts them apart, and lets some in above their limit.
	SocketMemory() (int64, error)
	// Kill sends SIGKILL to every process of the group, those included that
	// are being forked. It does not wait for them to be gone.
	Kill() error
	// Yield has the group give way to its siblings where cores are short: it gets a small
	// part of what each of them does. It may run at any time, and holds until the next Limit.
	Yield() error
	// Hasten lifts the limit of CPU, for a group whose processes are being killed:
	// to die takes CPU, and a small share of it can take minutes. It may run at any
	// time, and holds until the next Limit.
	Hasten() error
	// Remove kills what is left and removes the group.
	Remove(ctx context.Context) error
}

// Hierarchy is the cgroup file system of this host.
type Hierarchy struct {
	root string
	v2   bool
	own  own
}

// DefaultRoot is where every distribution mounts the cgroup file system.
const DefaultRoot = "/sys/fs/cgroup"

// Detect finds the hierarchy below root. A hybrid host, whose controllers are
// on v1, counts as v1. The error names what is missing.
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

// Create makes the group at path, such as /assay-worker/7, and its parents.
// A group that is there already is used as it is.
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

// Open returns the group at path without making it.
func (h *Hierarchy) Open(path string) Group {
	if h.v2 {
		return &v2Group{dir: filepath.Join(h.root, path), path: path, moved: &h.own.moved}
	}
	return &v1Group{root: h.root, path: path, moved: &h.own.moved}
}

// RemoveAll kills everything in the group at path and its descendants, and
// removes them all, in every controller that has them. A path that does not
// exist is no error.
func (h *Hierarchy) RemoveAll(ctx context.Context, path string) error {
	roots := []string{h.root}
	if !h.v2 {
		found, err := filepath.Glob(filepath.Join(h.root, "*"))
		if err != nil {
			return err
		}
		roots = found // a runtime makes groups in controllers that we do not use
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

// removeDir kills what is in dir until the kernel lets it go: a killed process
// keeps its group busy until it is reaped.
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

// killDir sends SIGKILL to every process of one directory until a pass finds
// no new one, so that a process forked between reading and killing is caught.
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
