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

// family is what a slot's copies have in common with it. The pid namespace of a
// copy is inside that of what it is a copy of, so process 1 of a box, and all
// that the slot consists of, stay until the last copy is gone, even if the
// slot's own program has ended long before.
type family struct {
	parent *slot // that this is a copy of; nil: of none
	depth  int
	joined bool // it is among its parent's copies

	spareBox

	mu     sync.Mutex
	copies int
	ending bool          // makes no more copies
	gone   chan struct{} // closed when ending, and no copy is left
}

// join counts a copy in.
func (f *family) join() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending {
		return fmt.Errorf("%w: the program has ended", job.ErrConflict)
	}
	f.copies++
	return nil
}

// leave counts a copy out.
func (f *family) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.copies--
	f.settle()
}

// end ends the making of copies. The channel is closed when none is left.
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

// settle is called with the lock held.
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

// ran is what a slot runs, and where: not in itself if it was not like the job
// wanted it.
type ran struct {
	where  *slot
	policy *policy.Policy
}

// mayFork says what is in the way of a copy.
func (s *slot) mayFork(p *policy.Policy) error {
	switch {
	case !tracee.Supported:
		return job.Invalid("policy.isolation", "workers on %s cannot copy sessions", goruntime.GOARCH)
	case s.job == nil:
		return job.Invalid("image", "its interpreter starts afresh for every session, and cannot be copied")
	case !p.Subprocesses:
		return job.Invalid("policy.subprocesses", "a copy is a process: allow them")
	case p.Syscalls == "strict":
		return job.Invalid("policy.syscalls", "a copy enters namespaces of its own, which strict does not allow")
	case s.depth+1 > guest.MaxNesting:
		return job.Invalid("parent", "a copy of a copy of a copy, %d times over; at most %d: fork an earlier one", s.depth+1, guest.MaxNesting)
	}
	return nil
}

// fork makes a slot in which a copy of what runs in s, under p, waits.
func (s *slot) fork(ctx context.Context, p *policy.Policy, ask func([]*os.File) error) (*slot, error) {
	if !s.cell.cells.background.Enter() {
		return nil, background.ErrClosed
	}
	defer s.cell.cells.background.Leave()
	ctx, cancel := context.WithTimeout(ctx, boxTime)
	defer cancel()
	c, spare, err := s.tryFork(ctx, p, ask)
	if err != nil && spare { // what runs in s can kill the spare box, and that takes its time to die
		c, _, err = s.tryFork(ctx, p, ask)
	}
	if err != nil {
		return nil, err
	}
	time.AfterFunc(spareDelay, func() { s.cell.cells.background.Spawn(s.makeSpare) }) // what was copied once is copied again
	return c, nil
}

// tryFork makes one copy. It says whether its box was the spare one.
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
		f.close() // the interpreter waits for no box any longer
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
		if errors.Is(err, job.ErrConflict) {
			return nil, false, err
		}
		return nil, spare, fmt.Errorf("%w: copy the interpreter: %w", job.ErrUnavailable, err)
	}
	if !s.cell.cells.register(c) {
		return nil, spare, background.ErrClosed
	}
	return c, spare, nil
}

// newCopyBox makes the box of a copy of what runs in s.
func (s *slot) newCopyBox(ctx context.Context) (*slot, error) { return s.newBox(ctx, nil) }

// newBox makes a box inside that of s, for what is forked from p if that is not nil,
// and finds it a control group meanwhile: to make one takes as long, where none is free.
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

// asking is a running interpreter that was told to have itself copied.
type asking struct {
	done chan struct{} // closed when it has done its part
	err  error         // of that
}

// askFork tells a running interpreter to make ready for being copied, while the
// box of the copy is made.
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
		_ = slot.Close() // before anybody waits for the end of the other side
	}()
	goruntime.Gosched() // with one thread of ours, it would ask when there is nothing else to do
	return &forked{slot: ours, ended: make(chan unix.WaitStatus, 1)}, asked, nil
}

// errNotForked: an interpreter that has answered forks no more.
var errNotForked = errors.New("it did not")

// copy has the interpreter that was asked, the process from, fork a process into the
// box of c. The limits are those of what it is a copy of from the beginning: it
// brings its files along, before its attempt begins.
func (c *slot) copy(ctx context.Context, p *policy.Policy, from int, asked *asking) (err error) {
	var box []int
	defer func() {
		closeAll(box)
		if err == nil {
			return // the interpreter answers when its copy goes on
		}
		c.job.slot.Close()
		if <-asked.done; asked.err != nil { // what came of it here follows from that
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
	defer c.job.slot.Within(ctx)()
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

// arrived waits until the interpreter in c, a copy, has found its way in its box. It
// is sent its attempt before: so neither waits for the other.
func (c *slot) arrived(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, boxTime)
	defer cancel()
	defer c.job.slot.Within(ctx)()
	_, err := c.job.slot.Expect(guest.BoxWaiting)
	return err
}

// watchCopy makes sure that a process, which is held, is where it should be, and
// waits for its end. What its status was, only process 1 of the box is told.
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

// arrival makes sure that a process, which is held, is in the namespaces of the box.
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

// killProgram kills what runs in s, but not the box if copies need it.
func (s *slot) killProgram() error {
	if s.family.hasNoForks() {
		return s.sup.Kill()
	}
	return s.lease.Kill()
}

// programDead waits until nothing is left of what ran in s. If there is
// something, the box goes, too, unless copies need it.
func (s *slot) programDead() error {
	if n, err := s.lease.Processes(); err == nil && n == 0 {
		return nil // the usual case: the end of the box need not be waited for
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
		case d.GivenUp():
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
