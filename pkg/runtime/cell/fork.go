package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/background"
	"github.com/assay-run/assay/pkg/runtime/packet"
	"github.com/assay-run/assay/pkg/runtime/process"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
	"github.com/assay-run/assay/pkg/runtime/tracee"
)

// family tracks the copies of a slot. A copy's pid namespace is nested in its original's. So
// process 1 of a box, and all resources of the slot, stay until the last copy is gone. The slot's
// own program may have ended long before.
type family struct {
	parent *slot // the original of this copy; nil: not a copy
	depth  int
	joined bool // it is counted in its parent

	spareBox

	mu     sync.Mutex
	copies int
	ending bool          // no further copies
	gone   chan struct{} // closed when ending, and no copy is left
}

// join counts a copy.
func (f *family) join() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending {
		return fmt.Errorf("%w: the program has ended", job.ErrConflict)
	}
	f.copies++
	return nil
}

// leave ends a copy.
func (f *family) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.copies--
	f.settle()
}

// end prevents further copies. The channel is closed when none is left.
func (f *family) end() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone == nil {
		f.gone = make(chan struct{})
	}
	f.ending = true
	f.settle()
	return f.gone
}

// settle closes the channel if possible. The caller holds the lock.
func (f *family) settle() {
	if !f.ending || f.copies > 0 {
		return
	}
	select {
	case <-f.gone:
	default:
		close(f.gone)
	}
}

// hasNoForks reports whether no copy needs the box.
func (f *family) hasNoForks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.copies == 0
}

// Fork implements runtime.Forker.
func (s *slot) Fork(ctx context.Context, ask func(files []*os.File) error) (runtime.Slot, error) {
	running := s.running.Load()
	if running == nil {
		return nil, fmt.Errorf("%w: no program runs that could be copied", job.ErrConflict)
	}
	if err := running.where.mayFork(running.policy); err != nil {
		return nil, err
	}
	c, err := running.where.fork(ctx, running.policy, ask)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// ran is a slot's current program and its actual slot, which differs if the slot did not suit the
// job.
type ran struct {
	where  *slot
	policy *policy.Policy
}

// mayFork returns why a copy is impossible.
func (s *slot) mayFork(p *policy.Policy) error {
	switch {
	case !tracee.Supported:
		return job.Invalid("policy.isolation", "workers on %s cannot copy sessions", goruntime.GOARCH)
	case s.job == nil:
		return job.Invalid("image", "its interpreter starts afresh for every session, and cannot be copied; "+
			"the cause is an image without a Python that the worker can fork, or a variable of policy.env.set such as LD_PRELOAD")
	case !p.Subprocesses:
		return job.Invalid("policy.subprocesses", "a copy is a process: allow them")
	case p.Syscalls == "strict":
		return job.Invalid("policy.syscalls", "a copy enters namespaces of its own, which strict does not allow")
	case s.depth+1 > guest.MaxNesting:
		return job.Invalid("parent", "a copy of a copy of a copy, %d times over; at most %d: fork an earlier one", s.depth+1, guest.MaxNesting)
	}
	return nil
}

// fork creates a slot in which a copy of s's program waits. p is the program's policy.
func (s *slot) fork(ctx context.Context, p *policy.Policy, ask func([]*os.File) error) (*slot, error) {
	if !s.cell.cells.background.Enter() {
		return nil, background.ErrClosed
	}
	defer s.cell.cells.background.Leave()
	ctx, cancel := context.WithTimeout(ctx, boxTime)
	defer cancel()
	c, spare, err := s.tryFork(ctx, p, ask)
	if err != nil && spare { // the program in s can kill the spare box, which then takes time to die
		c, _, err = s.tryFork(ctx, p, ask)
	}
	if err != nil {
		return nil, err
	}
	// a program that was copied once is likely to be copied again
	time.AfterFunc(spareDelay, func() { s.cell.cells.background.Spawn(s.makeSpare) })
	return c, nil
}

// tryFork creates one copy. It reports whether it used the spare box.
func (s *slot) tryFork(ctx context.Context, p *policy.Policy, ask func([]*os.File) error) (_ *slot, spare bool, err error) {
	if err := s.family.join(); err != nil {
		return nil, false, err
	}
	f, asked, err := askFork(ask)
	if err != nil {
		s.family.leave()
		return nil, false, err
	}
	s.cell.cells.cfg.Cgroups.PrepareMove()
	c := s.takeSpare()
	if c != nil {
		spare = true
	} else if c, err = s.newCopyBox(ctx); err != nil {
		f.close() // the interpreter does not wait for a box any more
		<-asked.done
		s.family.leave()
		return nil, false, fmt.Errorf("make a box: %w", err)
	}
	c.job, c.joined = f, true
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if err := c.copy(ctx, p, s.job.pid, asked); err != nil {
		switch {
		case errors.Is(err, job.ErrConflict):
			return nil, false, err
		case errors.Is(err, job.ErrInvalid), errors.Is(err, tracee.ErrNoNamespace): // the interpreter would fail again
			return nil, spare, fmt.Errorf("%w: copy the interpreter: %v", job.ErrRefused, err)
		}
		return nil, spare, fmt.Errorf("%w: copy the interpreter: %w", job.ErrUnavailable, err)
	}
	if !s.cell.cells.register(c) {
		return nil, spare, background.ErrClosed
	}
	return c, spare, nil
}

// newCopyBox creates the box for a copy of s's program.
func (s *slot) newCopyBox(ctx context.Context) (*slot, error) { return s.newBox(ctx, nil) }

// newBox creates a box inside the box of s, for a fork of p if p is not nil. It finds a control
// group at the same time, because creating one takes as long.
func (s *slot) newBox(ctx context.Context, p *preload) (*slot, error) {
	c := &slot{preload: p, of: s.of, Place: sandbox.Place{Image: s.Image, Layout: s.Layout, Null: s.Null}, cell: s.cell, overdue: make(chan struct{})}
	c.parent, c.depth = s, s.depth+1
	s.cell.mu.Lock()
	s.cell.slots++ // until release
	s.cell.mu.Unlock()
	var making errgroup.Group
	making.Go(func() (err error) {
		c.lease, err = s.cell.cells.groups.Get(ctx, 0)
		return err
	})
	making.Go(func() error { return c.makeBox(ctx, guest.Box{}) })
	if err := making.Wait(); err != nil {
		c.Close()
		return nil, err
	}
	c.Group = c.lease
	return c, nil
}

// asking is a running interpreter's pending fork.
type asking struct {
	done chan struct{} // closed when it has responded
	err  error         // of its response
}

// askFork makes a running interpreter prepare its fork while the box of the copy is created.
func askFork(ask func([]*os.File) error) (*forked, *asking, error) {
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, nil, err
	}
	asked := &asking{done: make(chan struct{})}
	go func() {
		defer close(asked.done)
		slot := os.NewFile(uintptr(theirs), "slot")
		asked.err = ask([]*os.File{slot})
		_ = slot.Close() // before the wait for the end of the other side
	}()
	goruntime.Gosched() // with a single thread, it would otherwise ask only when idle
	return &forked{slot: ours, ended: make(chan unix.WaitStatus, 1)}, asked, nil
}

// errNotForked means that the interpreter has responded without a fork.
var errNotForked = errors.New("it did not")

// copy makes the process from, an interpreter that was asked, fork a process into the box of c. The
// original's limits apply from the start, because the copy copies its files before its attempt
// starts.
func (c *slot) copy(ctx context.Context, p *policy.Policy, from int, asked *asking) (err error) {
	var box []int
	defer func() {
		closeAll(box)
		if err == nil {
			return // the interpreter responds when its copy continues
		}
		c.job.slot.Close()
		if <-asked.done; asked.err != nil { // the local error is a consequence
			err = asked.err
		}
	}()
	if box, err = c.openSpaces(tracee.Spaces); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-asked.done:
			cancel(errNotForked)
		case <-ctx.Done():
		}
	}()
	defer c.job.slot.BindContext(ctx)()
	return c.enter(ctx, p, from, func() error { return c.job.slot.Send([]byte{guest.BoxReady}, box...) })
}

// openSpaces opens namespaces of the box.
func (c *slot) openSpaces(names []string) (box []int, err error) {
	for _, name := range names {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", c.sup.PID, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			closeAll(box)
			return nil, fmt.Errorf("open the %s namespace of a box: %w", name, err)
		}
		box = append(box, fd)
	}
	return box, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// arrived waits until the interpreter in c, a copy, is ready in its box. Its attempt is sent
// before, so that neither waits for the other.
func (c *slot) arrived(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, boxTime)
	defer cancel()
	defer c.job.slot.BindContext(ctx)()
	_, err := c.job.slot.Expect(guest.BoxWaiting)
	return err
}

// watchCopy checks that a held process is in the right place, and watches for its end. Only process
// 1 of the box receives its status.
func (c *slot) watchCopy(pid int) error {
	proc, err := c.arrival(pid)
	if err != nil {
		return err
	}
	c.job.pid = pid
	go func() {
		defer proc.Close()
		_ = proc.Wait(context.Background()) // release kills it
		c.job.ended <- 0
	}()
	return nil
}

// arrival checks that a held process is in the namespaces of the box.
func (c *slot) arrival(pid int) (*process.Process, error) {
	proc, err := process.Open(pid)
	if err != nil {
		return nil, err
	}
	for _, name := range tracee.Spaces {
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		box, berr := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", c.sup.PID, name))
		if err = errors.Join(err, berr); err == nil && its != box {
			err = fmt.Errorf("the interpreter did not enter the %s namespace of its box", name)
		}
		if err != nil {
			proc.Close()
			return nil, err
		}
	}
	return proc, nil
}

// killProgram kills the program in s, but not the box if copies need it.
func (s *slot) killProgram() error {
	if s.family.hasNoForks() {
		return s.sup.Kill()
	}
	return s.lease.Kill()
}

// programDead waits until all processes of s's program are gone. If some remain, it also ends the
// box, unless copies need it.
func (s *slot) programDead() error {
	if n, err := s.lease.Processes(); err == nil && n == 0 {
		return nil // the usual case, without a wait for the end of the box
	}
	if err := errors.Join(s.killProgram(), s.lease.Hasten()); err != nil {
		return err
	}
	for d := process.DeathPatience.With(s.lease.Usage); !s.family.hasNoForks(); time.Sleep(time.Millisecond) {
		pids, err := s.lease.Pids()
		switch {
		case err != nil:
			return err
		case len(pids) == 0:
			return nil
		case d.IsStuck():
			return fmt.Errorf("%w: processes %v", process.ErrStillRunning, pids)
		}
		if err := s.lease.Kill(); err != nil {
			return err
		}
	}
	if err := s.sup.Kill(); err != nil {
		return err
	}
	return s.dead()
}
