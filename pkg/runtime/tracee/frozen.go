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

// Frozen is an interpreter that only serves as the origin of forks. It exists in several copies.
// The worker holds each copy from its creation, and also their original. None of them runs again.
// So all forks of a copy start in the same state, and forks cannot affect each other.
//
// A thread holds a copy and makes one fork at a time. Machines with several cores have several
// copies.
type Frozen struct {
	copies []*standing
	work   chan func(*standing) // for any copy
	end    func()
	over   chan struct{} // closed by End
	gone   chan struct{} // closed when a copy is dead

	passing sync.Mutex // held while a message to a fork is in transit
}

// standing is a copy.
type standing struct {
	of      *Frozen
	pid     int
	from    int // its original
	connect int // its descriptor of a connection to the worker, also in all of its forks
	tid     uintptr
	t       *Process
	work    chan func()

	waiting map[uintptr]chan<- unix.WaitStatus // for the ends of forks; used by its thread only
}

// MaxCopies limits the copies of one interpreter. Each is a process with a holding thread and its
// own page tables.
const MaxCopies = 4

// Freeze waits for the process from to fork, as tell requests for each copy, and holds the forks
// and finally the original. allow may reject a copy; before is the number of earlier copies. A
// process with several threads is rejected, because only one is copied.
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

// End ends the copies and their original. Their forks continue.
func (f *Frozen) End() { f.end() }

// Done returns a channel that is closed when a copy is dead, after which no more forks are
// possible.
func (f *Frozen) Done() <-chan struct{} { return f.gone }

// PIDs returns the process numbers of the copies.
func (f *Frozen) PIDs() (pids []int) {
	for _, s := range f.copies {
		pids = append(pids, s.pid)
	}
	return pids
}

// Between calls look while no copy forks, for checks of the held state.
func (f *Frozen) Between(look func() error) error {
	for _, s := range f.copies {
		inner := look
		look = func() error { return s.do(inner) }
	}
	return look()
}

// Fork forks a process. send sends descriptors to its connection: its slot, and its sandbox's
// namespaces (its network's user namespace, its network, and ForkedSpaces). take is called with the
// held process in the sandbox, and resumes it (Settle). ended receives its wait status while reap
// runs, which ends with proc, the same process.
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

// begin makes a new thread hold a copy and execute requests for it.
func (s *standing) begin(ctx context.Context, from int, last bool, tell func() error, allow func(*Process) error) error {
	made := make(chan error, 1)
	go func() {
		goruntime.LockOSThread() // a thread is the holder
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
	if err == nil { // after the fork handlers of libraries, which end their threads if possible
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

// single checks that a process has one thread.
func single(pid int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err == nil && len(tasks) != 1 {
		err = fmt.Errorf("an import left %d threads running", len(tasks)-1)
	}
	return err
}

// do runs what on a thread with a copy.
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

// do runs what on the thread of this copy.
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
