package tracee

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/process"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// errMessage means that the message with the namespaces did not arrive completely.
var errMessage = errors.New("a forked interpreter did not receive its descriptors")

// fork is Fork from this copy, on its thread.
func (s *standing) fork(ended chan<- unix.WaitStatus, send func() error, take func(*Process) error) (err error) {
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
	// The slot replaces the connection, which the program must not have.
	calls := []call{newCall("take the slot", unix.SYS_DUP3, fds[0], uintptr(s.connect), unix.O_CLOEXEC)}
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
		err = take(t)
	}
	if err != nil {
		t.end()
		return err
	}
	s.waiting[number] = ended
	return nil
}

// pass makes t receive the message that send sends to the connection, which all copies share. After
// a failure no more forks are possible, because the message may still be in the connection.
func (f *Frozen) pass(send func() error, t *Process, connect int) (fds []uintptr, err error) {
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

// reap reports the ends of processes forked from s, their parent. It also gets other events, like
// any zygote: a traced thread is reported to its parent at its end and at each stop.
func (s *standing) reap() error {
	at := s.t.regs.spare() &^ 15
	for range 256 { // a program must not delay others
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

// reapUntil makes s reap until proc, a fork of it, has ended.
func (s *standing) reapUntil(proc *process.Process) {
	defer proc.Close()
	for every := sandbox.MeterEvery; ; every = min(2*every, sandbox.MeterIdle) {
		ctx, cancel := context.WithTimeout(context.Background(), every)
		over := proc.Wait(ctx) == nil
		cancel()
		if err := s.do(s.reap); err != nil {
			s.of.end() // the ends of others would be lost, too
			return
		}
		if over {
			return
		}
	}
}

// receive makes t receive one message with n descriptors, and returns them.
func (t *Process) receive(from, n int) ([]uintptr, error) {
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

// innerNumber returns the number of a process in another process's pid namespace.
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
		return nil, errors.New("the kernel does not report ids in pid namespaces")
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
