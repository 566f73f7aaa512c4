package tracee

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is a held process with one thread. Only the holding thread may call its methods.
//
// The injected instructions overwrite the start of its vdso, which every process has as a private
// mapping. So writing copies these pages for this process only, even if other processes share the
// rest.
type Process struct {
	pid  int
	code uintptr   // address of the instructions
	text []byte    // the original content
	regs registers // the original values
	rseq sequences // the original's, to register again with the kernel
}

// PID returns its number here, or 0 after its end.
func (t *Process) PID() int { return t.pid }

const tracedForks = unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_SUSPEND_SECCOMP | unix.PTRACE_O_EXITKILL

// seize attaches to the first thread of a process, which continues to run, and to its future forks.
func seize(pid int) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, unix.PTRACE_O_TRACEFORK, 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.EPERM:
		return errors.New("another process traces it, or the worker may not")
	}
	return errno
}

// release detaches from a seized process, stopped or not.
func release(pid int) {
	if unix.PtraceDetach(pid) == nil {
		return
	}
	_ = unix.PtraceInterrupt(pid)
	if ws, err := waitFor(pid); err == nil && ws.Stopped() {
		_ = unix.PtraceDetach(pid)
	}
}

// awaitFork waits until a seized process forks and stops. It returns the held child. At the end of
// ctx, a signal makes it stop; the signal is not delivered.
func awaitFork(ctx context.Context, pid int) (forked int, err error) {
	undo := context.AfterFunc(ctx, func() { _ = unix.Tgkill(pid, pid, unix.SIGWINCH) })
	defer undo()
	for {
		ws, err := waitFor(pid)
		switch {
		case err != nil:
			return 0, err
		case !ws.Stopped():
			return 0, errors.New("it has ended")
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		}
		signal := int(ws.StopSignal())
		switch event := int(ws) >> 16; event {
		case unix.PTRACE_EVENT_FORK:
			n, err := unix.PtraceGetEventMsg(pid)
			return int(n), err
		case 0:
		default:
			signal = 0 // our own signal, not to be delivered
		}
		if err := unix.PtraceCont(pid, signal); err != nil {
			return 0, err
		}
	}
}

func waitFor(pid int) (ws unix.WaitStatus, err error) {
	for {
		if _, err = unix.Wait4(pid, &ws, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			return ws, err
		}
	}
}

// born waits until the child of a held process has stopped, before its first instruction.
func born(pid int) (*Process, error) {
	t := &Process{pid: pid}
	ws, err := waitFor(pid)
	if err == nil && !ws.Stopped() {
		err = errKilled
	}
	if err == nil {
		err = unix.PtraceSetOptions(pid, tracedForks)
	}
	if err == nil {
		err = t.regs.read(pid)
	}
	if err != nil {
		return nil, fmt.Errorf("hold a forked process: %w", err)
	}
	return t, nil
}

// errKilled means that a process in the sandbox may have killed it.
var errKilled = errors.New("the copy was killed")

// inject writes the instructions to the vdso at code.
func (t *Process) inject(code uintptr) error {
	t.code, t.text = code, make([]byte, len(injected))
	if _, err := unix.PtracePeekText(t.pid, code, t.text); err != nil {
		return fmt.Errorf("read the vdso: %w", err)
	}
	if _, err := unix.PtracePokeText(t.pid, code, injected); err != nil {
		return fmt.Errorf("write to the vdso: %w", err)
	}
	return nil
}

// call is one of a sequence of calls by a process.
type call struct {
	name string
	nr   uintptr
	args [tableEntry - 1]uintptr
}

// tableEntry is the length of a system call in a table of calls, in words.
const tableEntry = 5

func newCall(name string, nr uintptr, args ...uintptr) (c call) {
	c.name, c.nr = name, nr
	copy(c.args[:], args)
	return c
}

// callAll makes t execute calls up to the first failure. It stops only once for all calls, because
// a stop takes longer than most calls.
func (t *Process) callAll(calls []call) error {
	b := make([]byte, 0, len(calls)*tableEntry*8)
	for _, c := range calls {
		b = binary.NativeEndian.AppendUint64(b, uint64(c.nr))
		for _, a := range c.args {
			b = binary.NativeEndian.AppendUint64(b, uint64(a))
		}
	}
	at := (t.regs.spare() - uintptr(len(b))) &^ 15
	if err := t.write(at, b); err != nil {
		return err
	}
	r := t.regs.callingAll(t.code, at, len(calls))
	if err := t.run(r, t.code+tableEnd); err != nil {
		return err
	}
	if err := r.result(); err != nil {
		return fmt.Errorf("%s: %w", calls[len(calls)-r.left()].name, err)
	}
	return nil
}

// write writes to t's writable memory.
func (t *Process) write(at uintptr, b []byte) error {
	n, err := unix.ProcessVMWritev(t.pid, local(b), []unix.RemoteIovec{{Base: at, Len: len(b)}}, 0)
	if err == nil && n != len(b) {
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("write to a forked interpreter: %w", err)
	}
	return nil
}

// read reads from the memory of t.
func (t *Process) read(at uintptr, b []byte) error {
	n, err := unix.ProcessVMReadv(t.pid, local(b), []unix.RemoteIovec{{Base: at, Len: len(b)}}, 0)
	if err == nil && n != len(b) {
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("read from a forked interpreter: %w", err)
	}
	return nil
}

func local(b []byte) []unix.Iovec {
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	return []unix.Iovec{v}
}

// call makes t execute a system call.
func (t *Process) call(name string, nr uintptr, args ...uintptr) error {
	_, err := t.ask(name, nr, args...)
	return err
}

// ask is call with a result.
func (t *Process) ask(name string, nr uintptr, args ...uintptr) (uintptr, error) {
	r := t.regs.calling(t.code, nr, args...)
	err := t.run(r, t.code+callEnd)
	if err == nil {
		err = r.result()
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return r.value(), nil
}

// run resumes t with r until it reaches end, a breakpoint. r then has its registers.
func (t *Process) run(r *registers, end uintptr) error {
	if err := r.write(t.pid); err != nil {
		return err
	}
	for {
		if err := unix.PtraceCont(t.pid, 0); err != nil {
			return err
		}
		ws, err := waitFor(t.pid)
		switch {
		case err != nil:
			return err
		case !ws.Stopped():
			return errKilled
		case int(ws)>>16 != 0: // it forks, or a process tries to stop it
			continue
		}
		switch ws.StopSignal() {
		case unix.SIGTRAP:
			if err := r.read(t.pid); err != nil || r.at() == end {
				return err
			}
		case unix.SIGSEGV, unix.SIGBUS, unix.SIGILL, unix.SIGSYS:
			return fmt.Errorf("it got signal %d", ws.StopSignal())
		}
	}
}

// fork makes t fork a process with clone's flags, and returns the child.
func (t *Process) fork(flags, tid uintptr) (*Process, error) {
	r := t.regs.calling(t.code, unix.SYS_CLONE, flags, 0, 0, tid, 0)
	if err := r.write(t.pid); err != nil {
		return nil, err
	}
	if err := unix.PtraceCont(t.pid, 0); err != nil {
		return nil, err
	}
	for {
		ws, err := waitFor(t.pid)
		switch {
		case err != nil:
			return nil, err
		case !ws.Stopped():
			return nil, errKilled
		case int(ws)>>16 == unix.PTRACE_EVENT_FORK:
			n, err := unix.PtraceGetEventMsg(t.pid)
			if err != nil {
				return nil, err
			}
			child, err := born(int(n))
			if err != nil {
				return nil, err
			}
			child.code, child.text, child.regs = t.code, t.text, t.regs
			return child, nil
		case int(ws)>>16 == 0 && ws.StopSignal() == unix.SIGTRAP:
			if err := r.read(t.pid); err != nil {
				return nil, err
			}
			if r.at() == t.code+callEnd {
				return nil, errors.Join(r.result(), errors.New("fork"))
			}
		}
		if err := unix.PtraceCont(t.pid, 0); err != nil {
			return nil, err
		}
	}
}

// spawn is fork for a process that will make more calls. It also returns the child's number for t.
func (t *Process) spawn(flags, tid uintptr) (child *Process, number uintptr, err error) {
	if child, err = t.fork(flags, tid); err != nil {
		return nil, 0, err
	}
	for { // the call is not complete yet
		var r registers
		if err = unix.PtraceCont(t.pid, 0); err != nil {
			break
		}
		ws, werr := waitFor(t.pid)
		if err = werr; err == nil && !ws.Stopped() {
			err = errKilled
		}
		if err != nil {
			break
		}
		if int(ws)>>16 != 0 || ws.StopSignal() != unix.SIGTRAP {
			continue
		}
		if err = r.read(t.pid); err != nil {
			break
		}
		if r.at() == t.code+callEnd {
			return child, r.value(), r.result()
		}
	}
	child.end()
	return nil, 0, err
}

// end kills t, unless it has ended.
func (t *Process) end() {
	if t.pid == 0 {
		return
	}
	_ = unix.Kill(t.pid, unix.SIGKILL)
	for {
		if ws, err := waitFor(t.pid); err != nil || !ws.Stopped() {
			break
		}
	}
	t.pid = 0 // another process may have the number now
}

// endStrays ends all processes held by the calling thread except the known ones. A process killed
// during a fork may leave an unreported child. Only its holder can wait for it, and its pid
// namespace cannot end before.
func endStrays(known ...int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	tracer := fmt.Sprintf("\nTracerPid:\t%d\n", unix.Gettid())
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || slices.Contains(known, pid) {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil && strings.Contains(string(status), tracer) {
			(&Process{pid: pid}).end()
		}
	}
}

// letGo resumes t from its creation.
func (t *Process) letGo() error {
	if _, err := unix.PtracePokeText(t.pid, t.code, t.text); err != nil {
		return fmt.Errorf("restore the vdso: %w", err)
	}
	if err := t.regs.write(t.pid); err != nil {
		return err
	}
	return unix.PtraceDetach(t.pid)
}
