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
)

// frozen is a process of a box that does nothing any more but be forked: the worker
// holds it from its birth on, and so what it was forked from. Neither runs again, so
// whatever is forked from it begins the same, and nothing that one fork does or knows
// can reach another.
type frozen struct {
	pid     int
	connect int // its descriptor of a connection to the worker, in all that it forks
	tid     uintptr
	t       *tracee
	work    chan func()
	end     func()
	gone    chan struct{} // closed when it is dead

	waiting map[uintptr]chan<- unix.WaitStatus // for the ends of what was forked; its thread's
}

// freeze waits until the process from, which tell tells to, forks, and holds it and
// what it forked. allow may object to the latter. Where it has several threads it is
// of no use: of those only one is copied.
func freeze(ctx context.Context, from, connect int, tell func() error, allow func(*tracee) error) (*frozen, error) {
	f := &frozen{connect: connect, work: make(chan func()), gone: make(chan struct{}), waiting: map[uintptr]chan<- unix.WaitStatus{}}
	over := make(chan struct{})
	f.end = sync.OnceFunc(func() { close(over) })
	made := make(chan error, 1)
	go func() {
		goruntime.LockOSThread() // what is held is held by a thread
		defer goruntime.UnlockOSThread()
		err := f.hold(ctx, from, tell, allow)
		made <- err
		for err == nil {
			select {
			case do := <-f.work:
				do()
				continue
			case <-over:
			case <-f.gone:
			}
			f.t.end()
			(&tracee{pid: from}).end()
			return
		}
	}()
	if err := <-made; err != nil {
		return nil, err
	}
	proc, err := openProcess(f.pid)
	if err != nil {
		f.end()
		return nil, err
	}
	go func() {
		defer close(f.gone)
		defer proc.close()
		_ = proc.wait(context.Background())
	}()
	return f, nil
}

func (f *frozen) hold(ctx context.Context, from int, tell func() error, allow func(*tracee) error) error {
	if err := seize(from); err != nil {
		return fmt.Errorf("hold the interpreter: %w", err)
	}
	err := tell()
	pid := 0
	if err == nil {
		pid, err = awaitFork(ctx, from)
	}
	if err == nil {
		f.t, err = born(pid)
	}
	if err != nil {
		release(from)
		return fmt.Errorf("wait for the interpreter to fork: %w", err)
	}
	f.pid = pid
	var how registers
	if err = how.read(from); err == nil {
		var ok bool
		if f.tid, ok = how.forking(); !ok {
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
		err = allow(f.t)
	}
	if err == nil {
		err = f.t.call("hide", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	}
	if err != nil {
		f.t.end()
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

// do has the thread that holds f call something.
func (f *frozen) do(what func() error) error {
	done := make(chan error, 1)
	select {
	case f.work <- func() { done <- what() }:
		return <-done
	case <-f.gone:
		return errGuest
	}
}

// errMessage: the message with the namespaces did not come through whole.
var errMessage = errors.New("a forked interpreter has not got its descriptors")

// fork has a process forked that finds its way by descriptors which were sent to the
// connection: its slot, and passedSpaces of its box. take is called with the process
// while it is held in its box. How it ends is told to ended, as long as somebody reaps.
func (f *frozen) fork(ended chan<- unix.WaitStatus, take func(*tracee, sequences) error) error {
	between, _, err := f.t.spawn(f.flags(), f.tid)
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	defer func() {
		between.end()
		_ = f.reap()
	}()
	fds, err := between.receive(f.connect, 1+len(passedSpaces))
	if err != nil {
		return err
	}
	sequences := between.sequences()
	// The slot takes the place of the connection: nobody else has any business with that.
	calls := []systemCall{newCall("take the slot", unix.SYS_DUP3, fds[0], uintptr(f.connect), unix.O_CLOEXEC)}
	calls = append(calls, entering(passedSpaces, fds[1:])...)
	calls = append(calls,
		newCall("become the group of its box", unix.SYS_SETRESGID, programGID, programGID, programGID),
		newCall("become the user of its box", unix.SYS_SETRESUID, programUID, programUID, programUID))
	t, err := between.through(calls, f.tid, unix.CLONE_PARENT)
	if err != nil {
		return err
	}
	number, err := innerNumber(t.pid, f.pid)
	if err == nil {
		err = take(t, sequences)
	}
	if err != nil {
		t.end()
		return err
	}
	f.waiting[number] = ended
	return nil
}

func (f *frozen) flags() uintptr {
	flags := uintptr(syscall.SIGCHLD)
	if f.tid != 0 {
		flags |= unix.CLONE_CHILD_SETTID | unix.CLONE_CHILD_CLEARTID
	}
	return flags
}

// reap tells how processes ended that were forked from f, whose children they are. As
// for any zygote, there are others: a thread that asks to be traced is its parent's to
// wait for, at its end and at each of its stops.
func (f *frozen) reap() error {
	at := f.t.regs.spare() &^ 15
	for range 256 { // a program must not keep others waiting
		number, err := f.t.ask("wait", unix.SYS_WAIT4, ^uintptr(0), at, unix.WNOHANG, 0)
		switch {
		case errors.Is(err, unix.ECHILD), err == nil && number == 0:
			return nil
		case err != nil:
			return err
		}
		var b [4]byte
		if _, err := unix.PtracePeekData(f.t.pid, at, b[:]); err != nil {
			return fmt.Errorf("read a status: %w", err)
		}
		status := unix.WaitStatus(binary.NativeEndian.Uint32(b[:]))
		if ended := f.waiting[number]; ended != nil && (status.Exited() || status.Signaled()) {
			ended <- status
			delete(f.waiting, number)
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
