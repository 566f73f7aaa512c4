package containerd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/process"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// frozen is an interpreter that does nothing any more but be forked, in copies of which
// each is held by the worker from its birth on, and what they were forked from is, too. None
// of them runs again, so whatever is forked from one begins the same, and nothing that one
// fork does or knows can reach another.
//
// A copy is held by a thread, which makes one fork at a time: there are several for
// machines with several cores.
type frozen struct {
	copies []*standing
	work   chan func(*standing) // for any of them
	end    func()
	over   chan struct{} // closed by end
	gone   chan struct{} // closed when one of them is dead

	passing sync.Mutex // held while a message is on its way to what is forked
}

// standing is a copy.
type standing struct {
	of      *frozen
	pid     int
	from    int // what it was forked from
	connect int // its descriptor of a connection to the worker, in all that it forks
	tid     uintptr
	t       *tracee
	work    chan func()

	waiting map[uintptr]chan<- unix.WaitStatus // for the ends of what was forked; its thread's
}

// standingMost bounds the copies of one interpreter: each is a process with a thread that
// holds it, and page tables of its own.
const standingMost = 4

// freeze waits until the process from forks, which tell tells it to for each copy, and holds
// what it forked, and at last itself. allow may object to a copy, of which there were so many
// before. Where it has several threads it is of no use: of those only one is copied.
func freeze(ctx context.Context, from, connect, copies int, tell func() error, allow func(t *tracee, before int) error) (*frozen, error) {
	f := &frozen{work: make(chan func(*standing)), over: make(chan struct{}), gone: make(chan struct{})}
	f.end = sync.OnceFunc(func() { close(f.over) })
	gone := sync.OnceFunc(func() { close(f.gone) })
	for before := range copies {
		s := &standing{of: f, connect: connect, work: make(chan func()), waiting: map[uintptr]chan<- unix.WaitStatus{}}
		err := s.begin(ctx, from, before == copies-1, tell, func(t *tracee) error { return allow(t, before) })
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

// begin has a copy held by a thread of its own, which does then what it is asked to.
func (s *standing) begin(ctx context.Context, from int, last bool, tell func() error, allow func(*tracee) error) error {
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
			(&tracee{pid: from}).end()
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

func (s *standing) hold(ctx context.Context, from int, tell func() error, allow func(*tracee) error) error {
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
		(&tracee{pid: from}).end()
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
func (f *frozen) do(what func(*standing) error) error {
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

// errMessage: the message with the namespaces did not come through whole.
var errMessage = errors.New("a forked interpreter has not got its descriptors")

// fork has a process forked that finds its way by descriptors which send sends to the
// connection: its slot, and passedSpaces of its box. take is called with the process
// while it is held in its box. How it ends is told to ended, as long as somebody reaps.
func (s *standing) fork(ended chan<- unix.WaitStatus, send func() error, take func(*tracee, sequences) error) (err error) {
	between, _, err := s.t.spawn(s.flags(), s.tid)
	if err != nil {
		endStrays(s.pid, s.from)
		return fmt.Errorf("fork: %w", err)
	}
	defer func() {
		between.end()
		if err != nil {
			endStrays(s.pid, s.from)
		}
		_ = s.reap()
	}()
	fds, err := s.of.pass(send, between, s.connect)
	if err != nil {
		return err
	}
	sequences := between.sequences()
	// The slot takes the place of the connection: nobody else has any business with that.
	calls := []systemCall{newCall("take the slot", unix.SYS_DUP3, fds[0], uintptr(s.connect), unix.O_CLOEXEC)}
	calls = append(calls, entering(passedSpaces, fds[1:])...)
	calls = append(calls,
		newCall("become the group of its box", unix.SYS_SETRESGID, sandbox.ProgramGID, sandbox.ProgramGID, sandbox.ProgramGID),
		newCall("become the user of its box", unix.SYS_SETRESUID, sandbox.ProgramUID, sandbox.ProgramUID, sandbox.ProgramUID))
	t, err := between.through(calls, s.tid, unix.CLONE_PARENT)
	if err != nil {
		return err
	}
	number, err := innerNumber(t.pid, s.pid)
	if err == nil {
		err = take(t, sequences)
	}
	if err != nil {
		t.end()
		return err
	}
	s.waiting[number] = ended
	return nil
}

// pass has t receive what send sends to the connection, which all copies have. Where it does
// not, nothing more is forked: the message may still be there, and is meant for this one.
func (f *frozen) pass(send func() error, t *tracee, connect int) (fds []uintptr, err error) {
	f.passing.Lock()
	defer f.passing.Unlock()
	select {
	case <-f.over:
		return nil, sandbox.ErrGuest
	default:
	}
	if err = send(); err == nil {
		fds, err = t.receive(connect, 1+len(passedSpaces))
	}
	if err != nil {
		f.end()
	}
	return fds, err
}

func (s *standing) flags() uintptr {
	flags := uintptr(syscall.SIGCHLD)
	if s.tid != 0 {
		flags |= unix.CLONE_CHILD_SETTID | unix.CLONE_CHILD_CLEARTID
	}
	return flags
}

// reap tells how processes ended that were forked from s, whose children they are. As
// for any zygote, there are others: a thread that asks to be traced is its parent's to
// wait for, at its end and at each of its stops.
func (s *standing) reap() error {
	at := s.t.regs.spare() &^ 15
	for range 256 { // a program must not keep others waiting
		number, err := s.t.ask("wait", unix.SYS_WAIT4, ^uintptr(0), at, unix.WNOHANG, 0)
		switch {
		case errors.Is(err, unix.ECHILD), err == nil && number == 0:
			return nil
		case err != nil:
			return err
		}
		var b [4]byte
		if _, err := unix.PtracePeekData(s.t.pid, at, b[:]); err != nil {
			return fmt.Errorf("read a status: %w", err)
		}
		status := unix.WaitStatus(binary.NativeEndian.Uint32(b[:]))
		if ended := s.waiting[number]; ended != nil && (status.Exited() || status.Signaled()) {
			ended <- status
			delete(s.waiting, number)
		}
	}
	return nil
}

// receive has t receive one message with n descriptors, and returns them.
func (t *tracee) receive(from, n int) ([]uintptr, error) {
	const (
		header  = 56
		vector  = 16
		control = 16 // before the descriptors
	)
	room := control + 4*n
	b := make([]byte, header+vector+(room+7)&^7+8)
	at := (t.regs.spare() - uintptr(len(b))) &^ 15
	put := binary.NativeEndian.PutUint64
	put(b[16:], uint64(at)+header) // msg_iov
	put(b[24:], 1)
	put(b[32:], uint64(at)+header+vector) // msg_control
	put(b[40:], uint64(room))
	put(b[header:], uint64(at)+uint64(len(b))-8) // iov_base
	put(b[header+8:], 1)
	if err := t.write(at, b); err != nil {
		return nil, err
	}
	got, err := t.ask("receive its descriptors", unix.SYS_RECVMSG, uintptr(from), at, unix.MSG_DONTWAIT)
	if err != nil {
		return nil, err
	}
	if err := t.read(at, b); err != nil {
		return nil, err
	}
	length := binary.NativeEndian.Uint64(b[header+vector:])
	if got != 1 || length != uint64(room) {
		return nil, errMessage
	}
	out := make([]uintptr, n)
	for i := range out {
		out[i] = uintptr(binary.NativeEndian.Uint32(b[header+vector+control+4*i:]))
	}
	return out, nil
}

// innerNumber is the number of a process in the pid namespace in which another one
// lives.
func innerNumber(pid, beside int) (uintptr, error) {
	depth := func(pid int) ([]string, error) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if list, ok := strings.CutPrefix(line, "NSpid:"); ok {
				return strings.Fields(list), nil
			}
		}
		return nil, errors.New("the kernel does not tell numbers in pid namespaces")
	}
	its, err := depth(pid)
	if err != nil {
		return 0, err
	}
	other, err := depth(beside)
	if err != nil {
		return 0, err
	}
	var n uintptr
	if len(its) < len(other) {
		return 0, errors.New("a forked interpreter is in another pid namespace")
	}
	_, err = fmt.Sscan(its[len(other)-1], &n)
	return n, err
}
