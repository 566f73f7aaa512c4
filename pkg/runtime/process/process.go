package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/poll"
)

// Process is a process that is not our child, held by a descriptor so that its number cannot be
// reused.
type Process struct {
	PID int
	FD  *os.File
}

// Open returns the process with this number, which must not have been reaped.
func Open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &Process{PID: pid, FD: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Kill sends SIGKILL. A process that has ended is not an error.
func (p *Process) Kill() error {
	rc, err := p.FD.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := rc.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) }); cerr != nil {
		return cerr
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Running reports whether the process has not exited yet.
func (p *Process) Running() bool {
	running := false
	rc, err := p.FD.SyscallConn()
	if err == nil {
		_ = rc.Control(func(fd uintptr) {
			ready, err := poll.Now(fd, unix.POLLIN)
			running = ready == 0 && err == nil
		})
	}
	return running
}

// Over reports whether the process with this number has exited with all of its threads, reaped or
// not.
func Over(pid int) bool {
	p, err := Open(pid)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer p.Close()
	return !p.Running()
}

// Dying reports whether the process was killed and has not exited yet: on a busy machine a signal
// stays pending until a processor is free.
func (p *Process) Dying() bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(status)) {
		name, mask, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		pending, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
		if err != nil || pending&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return !p.Running() // otherwise the number may be another process's now
}

// Wait returns when the process has exited. For process 1 this means the end of its whole pid
// namespace, which the kernel empties first. Only one caller may wait.
func (p *Process) Wait(ctx context.Context) error {
	rc, err := p.FD.SyscallConn()
	if err != nil {
		return err
	}
	_ = p.FD.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = p.FD.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = rc.Read(func(fd uintptr) bool {
		ready, err := poll.Now(fd, unix.POLLIN)
		return ready != 0 || err != nil
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("process %d has not exited: %w", p.PID, context.Cause(ctx))
	}
	return err
}

// Close closes the descriptor. The process continues.
func (p *Process) Close() { _ = p.FD.Close() }
