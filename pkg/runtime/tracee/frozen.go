package tracee

import (
	"context"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/process"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// Frozen is an interpreter that does nothing any more but be forked, in copies of which
// each is held by the worker from its birth on, and what they were forked from is, too. None
// of them runs again, so whatever is forked from one begins the same, and nothing that one
// fork does or knows can reach another.
//
// A copy is held by a thread, which makes one fork at a time: there are several for
// machines with several cores.
type Frozen struct {
	copies []*standing
	work   chan func(*standing) // for any of them
	end    func()
	over   chan struct{} // closed by End
	gone   chan struct{} // closed when one of them is dead

	passing sync.Mutex // held while a message is on its way to what is forked
}

// standing is a copy.
type standing struct {
	of      *Frozen
	pid     int
	from    int // what it was forked from
	connect int // its descriptor of a connection to the worker, in all that it forks
	tid     uintptr
	t       *Process
	work    chan func()

	waiting map[uintptr]chan<- unix.WaitStatus // for the ends of what was forked; its thread's
}

// MaxCopies bounds the copies of one interpreter: each is a process with a thread that
// holds it, and page tables of its own.
const MaxCopies = 4

// Freeze waits until the process from forks, which tell tells it to for each copy, and holds
// what it forked, and at last itself. allow may object to a copy, of which there were so many
// before. Where it has several threads it is of no use: of those only one is copied.
func Freeze(ctx context.Context, from, connect, copies int, tell func() error, allow func(t *Process, before int) error) (*Frozen, error) {
	f := &Frozen{work: make(chan func(*standing)), over: make(chan struct{}), gone: make(chan struct{})}
	f.end = sync.OnceFunc(func() { close(f.over) })
	gone := sync.OnceFunc(func() { close(f.gone) })
	for before := range copies {
		s := &standing{of: f, connect: connect, work: make(chan func()), waiting: map[uintptr]chan<- unix.WaitStatus{}}
		err := s.begin(ctx, from, before == copies-1, tell, func(t *Process) error { return allow(t, before) })
		if err == nil {
			f.copies = append(f.copies, s)
			err = s.watch(gone)
		}
		if err != nil {
			f.end()
			return nil, err
		}
	}
	return f, nil
}

// End ends the copies and what they were forked from. What is forked from them goes on.
func (f *Frozen) End() { f.end() }

// Gone is closed when a copy is dead: nothing more can be forked then.
func (f *Frozen) Gone() <-chan struct{} { return f.gone }

// PIDs are the numbers of the copies.
func (f *Frozen) PIDs() (pids []int) {
	for _, s := range f.copies {
		pids = append(pids, s.pid)
	}
	return pids
}

// Between calls look while no copy forks anything, for who wants to see them stand still.
func (f *Frozen) Between(look func() error) error {
	for _, s := range f.copies {
		inner := look
		look = func() error { return s.do(inner) }
	}
	return look()
}

// Fork has a process forked that finds its way by descriptors which send sends to the
// connection: its slot, and those that lead to its sandbox (its network's user namespace, its
// network, and ForkedSpaces). take is called with the process while it is held there, and lets
// it go (Settle). How it ends is told to ended as long as reap runs, which does until proc, of
// the same process, has ended.
func (f *Frozen) Fork(ended chan<- unix.WaitStatus, send func() error, take func(*Process) error) (reap func(proc *process.Process), err error) {
	var from *standing
	err = f.do(func(s *standing) error {
		from = s
		return s.fork(ended, send, take)
	})
	if err != nil {
		return nil, err
	}
	return from.reapUntil, nil
}

// begin has a copy held by a thread of its own, which does then what it is asked to.
func (s *standing) begin(ctx context.Context, from int, last bool, tell func() error, allow func(*Process) error) error {
	made := make(chan error, 1)
	go func() {
		goruntime.LockOSThread() // what is held is held by a thread
		defer goruntime.UnlockOSThread()
		err := s.hold(ctx, from, tell, allow)
		if err == nil && !last {
			release(from)
		}
		s.from = from
		if err != nil {
			endStrays()
		}
		made <- err
		if err != nil {
			return
		}
		s.serve()
		s.t.end()
		if last {
			(&Process{pid: from}).end()
		}
		endStrays()
	}()
	return <-made
}

func (s *standing) serve() {
	for {
		select {
		case do := <-s.work:
			do()
		case do := <-s.of.work:
			do(s)
		case <-s.of.over:
			return
		case <-s.of.gone:
			return
		}
	}
}

// watch calls gone when the copy is dead.
func (s *standing) watch(gone func()) error {
	proc, err := process.Open(s.pid)
	if err != nil {
		return err
	}
	go func() {
		defer gone()
		defer proc.Close()
		_ = proc.Wait(context.Background())
	}()
	return nil
}

func (s *standing) hold(ctx context.Context, from int, tell func() error, allow func(*Process) error) error {
	if err := seize(from); err != nil {
		return fmt.Errorf("hold the interpreter: %w", err)
	}
	err := tell()
	if err == nil {
		s.pid, err = awaitFork(ctx, from)
	}
	if err == nil {
		s.t, err = born(s.pid)
	}
	if err != nil {
		release(from)
		return fmt.Errorf("wait for the interpreter to fork: %w", err)
	}
	var how registers
	if err = how.read(from); err == nil {
		var ok bool
		if s.tid, ok = how.forking(); !ok {
			err = errors.New("the interpreter does not fork as it should")
		}
	}
	if err == nil { // after what libraries do before a fork, which is to end their threads if they can
		err = single(from)
	}
	if err == nil {
		err = unix.PtraceSetOptions(from, tracedForks)
	}
	if err == nil {
		err = allow(s.t)
	}
	if err == nil {
		err = s.t.call("hide", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	}
	if err != nil {
		s.t.end()
		(&Process{pid: from}).end()
	}
	return err
}

// single makes sure that a process has one thread.
func single(pid int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err == nil && len(tasks) != 1 {
		err = fmt.Errorf("an import left %d threads running", len(tasks)-1)
	}
	return err
}

// do has a thread that holds a copy call something with it.
func (f *Frozen) do(what func(*standing) error) error {
	done := make(chan error, 1)
	select {
	case f.work <- func(s *standing) { done <- what(s) }:
		return <-done
	case <-f.gone:
	case <-f.over:
	}
	return sandbox.ErrGuest
}

// do is the same with this copy.
func (s *standing) do(what func() error) error {
	done := make(chan error, 1)
	select {
	case s.work <- func() { done <- what() }:
		return <-done
	case <-s.of.gone:
	case <-s.of.over:
	}
	return sandbox.ErrGuest
}
