package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/process"
)

// Groups lends control groups to the slots of cells, and reuses returned ones if the kernel
// supports that. The last returned group is lent first, so that unneeded groups from a peak become
// old and can be removed.
type Groups struct {
	hierarchy *cgroup.Hierarchy
	path      string // of the groups' parent

	mu   sync.Mutex
	free [2][]*Lease // by own; the longest unused first
	next int
	lent int
}

// Lease is a lent control group. Its meters count from zero and exclude our own processes in it
// (the supervisor of a box).
type Lease struct {
	cgroup.Group
	from    *Groups
	own     int64 // our own processes
	base    cgroup.Usage
	charged int64 // memory charged at the start of the loan
	Limits  cgroup.Limits
	haste   haste
	back    time.Time // when it was returned
}

// New lends groups of h, below path.
func New(h *cgroup.Hierarchy, path string) *Groups {
	return &Groups{hierarchy: h, path: path}
}

// leftover is the most memory of an earlier job, except cache, that may remain charged to a reused
// group. Files of a tmpfs are freed with its last unmount, in the background. Until then they
// reduce the next job's memory, and the kernel rejects a limit below them.
const leftover = int64(4 * job.MiB)

var errCharged = errors.New("memory of an earlier job is still charged to it")

// Get returns a group for a job and own of our processes, 0 or 1.
func (g *Groups) Get(ctx context.Context, own int64) (*Lease, error) {
	for {
		l := g.take(own)
		if l == nil {
			break
		}
		err := l.renew()
		if err == nil {
			return l, nil
		}
		level := slog.LevelWarn
		if errors.Is(err, errCharged) {
			level = slog.LevelDebug
		}
		slog.Log(ctx, level, "control group not reusable", "group", l.Path(), "error", err)
		l.drop(ctx)
	}
	g.mu.Lock()
	g.next++
	g.lent++
	path := fmt.Sprintf("%s/%d", g.path, g.next)
	g.mu.Unlock()
	group, err := g.hierarchy.Create(path)
	l := &Lease{Group: group, from: g, own: own}
	if err != nil {
		l.Group = g.hierarchy.Open(path)
		l.drop(ctx)
		return nil, err
	}
	return l, nil
}

// take returns a returned group, or nil.
func (g *Groups) take(own int64) *Lease {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.free[own]
	if len(list) == 0 {
		return nil
	}
	l := list[len(list)-1]
	g.free[own] = list[:len(list)-1]
	g.lent++
	return l
}

// Put returns a group without living processes.
func (l *Lease) Put(ctx context.Context) {
	if _, ok := l.Group.(cgroup.Reusable); !ok {
		l.drop(ctx)
		return
	}
	g := l.from
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lent--
	// The previous holder may still use its Lease to kill, so the group gets a new one.
	next := &Lease{Group: l.Group, from: g, own: l.own, base: l.base, charged: l.charged, Limits: l.Limits, back: time.Now()}
	if l.haste.end() {
		next.Limits = cgroup.Limits{}
	}
	g.free[l.own] = append(g.free[l.own], next)
}

// Trim removes the groups that have been unused since a time.
func (g *Groups) Trim(ctx context.Context, since time.Time) {
	g.mu.Lock()
	var unwanted []*Lease
	for own, list := range g.free {
		n := 0
		for n < len(list) && list[n].back.Before(since) {
			n++
		}
		unwanted = append(unwanted, list[:n]...)
		g.free[own] = slices.Delete(list, 0, n)
	}
	g.lent += len(unwanted)
	g.mu.Unlock()
	for _, l := range unwanted {
		l.drop(ctx)
	}
}

// drop removes a group permanently.
func (l *Lease) drop(ctx context.Context) {
	l.haste.end()
	if err := l.Remove(ctx); err != nil {
		slog.ErrorContext(ctx, "control group not removed; the next sweep will retry", "group", l.Path(), "error", err)
	}
	l.from.mu.Lock()
	l.from.lent--
	l.from.mu.Unlock()
}

// renew makes a used group like new.
func (l *Lease) renew() error {
	r := l.Group.(cgroup.Reusable)
	if n, err := r.Processes(); err != nil || n > 0 { // includes unreaped processes
		pids, err := r.Pids()
		if err != nil {
			return err
		}
		if len(pids) > 0 {
			return process.ErrStillRunning
		}
	}
	var err error
	if l.base, err = r.Usage(); err != nil {
		return err
	}
	reset, err := r.Reset(1 + l.own)
	if err != nil {
		return err
	}
	if reset {
		l.base.ForksRefused, l.Limits = 0, cgroup.Limits{}
	}
	if l.charged, err = r.Charged(); err != nil || l.charged <= leftover {
		return err
	}
	pinned, err := r.Pinned()
	if err == nil && pinned > leftover {
		err = fmt.Errorf("%w: %d bytes", errCharged, pinned)
	}
	return err
}

// Restart restarts the loan of a group that was not used since.
func (l *Lease) Restart() error {
	if _, ok := l.Group.(cgroup.Reusable); !ok {
		return nil
	}
	return l.renew()
}

// Limit implements cgroup.Group. It skips unchanged limits.
func (l *Lease) Limit(want cgroup.Limits) error {
	want.Processes += l.own
	if lifted := l.haste.settled(); want == l.Limits && !lifted {
		return nil
	}
	if err := l.Group.Limit(want); err != nil {
		l.Limits = cgroup.Limits{}
		return err
	}
	l.Limits = want
	return nil
}

// Hasten implements cgroup.Group, with a delay: most processes die at once, and the next job would
// have to set all limits again.
func (l *Lease) Hasten() error {
	l.haste.soon(l.Group)
	return nil
}

// Progress implements cgroup.Group.
func (l *Lease) Progress() (cgroup.Usage, error) {
	u, err := l.Group.Progress()
	return u.Since(l.base), err
}

// Usage implements cgroup.Group. It excludes cache from before the loan, as far as the kernel has
// not reclaimed it.
func (l *Lease) Usage() (cgroup.Usage, error) {
	u, err := l.Group.Usage()
	if err != nil {
		return u, err
	}
	u = u.Since(l.base)
	if u.MemoryPeak < l.Limits.Memory {
		u.MemoryPeak = max(u.MemoryPeak-l.charged, 0)
	}
	u.ProcessesPeak -= l.own
	return u, nil
}

// Unused returns the returned groups with own of our processes.
func (g *Groups) Unused(own int64) []*Lease {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.free[own])
}

// Outstanding returns the number of lent groups.
func (g *Groups) Outstanding() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lent
}
