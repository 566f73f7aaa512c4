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

// Process is a process that is not our child, held by a descriptor so that its
// number cannot come to mean another.
type Process struct {
	PID int
	FD  *os.File
}

// Open returns the process of a number, which must not have been waited for yet.
func Open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &Process{PID: pid, FD: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Kill sends SIGKILL. A process that is gone already is no error.
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

// Over reports whether the process of a number has exited, with all of its threads. Nobody need have
// waited for it.
func Over(pid int) bool {
	p, err := Open(pid)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer p.Close()
	return !p.Running()
}

// Dying reports whether the process was killed and lives on for a moment: on a busy
// machine a signal is pending until there is a processor to die on.
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
	return !p.Running() // else the number may be somebody else's by now
}

// Wait returns when the process has exited. Of a process 1 that means that its
// whole pid namespace is gone: the kernel empties it before it lets it exit.
// There is one waiter at a time.
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

// Close gives up the descriptor. The process goes on.
func (p *Process) Close() { _ = p.FD.Close() }
