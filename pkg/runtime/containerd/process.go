package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process that is not our child, held by a descriptor so that its
// number cannot come to mean another.
type process struct {
	pid int
	fd  *os.File
}

func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &process{pid: pid, fd: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// kill sends SIGKILL. A process that is gone already is no error.
func (p *process) kill() error {
	rc, err := p.fd.SyscallConn()
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

// running reports whether the process has not exited yet.
func (p *process) running() bool {
	running := false
	rc, err := p.fd.SyscallConn()
	if err == nil {
		_ = rc.Control(func(fd uintptr) {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			running = n == 0 && err == nil
		})
	}
	return running
}

// doomed reports whether the process was killed and lives on for a moment: on a busy
// machine a signal is pending until there is a processor to die on.
func (p *process) doomed() bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
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
	return !p.running() // else the number may be somebody else's by now
}

// wait returns when the process has exited. Of a process 1 that means that its
// whole pid namespace is gone: the kernel empties it before it lets it exit.
// There is one waiter at a time.
func (p *process) wait(ctx context.Context) error {
	rc, err := p.fd.SyscallConn()
	if err != nil {
		return err
	}
	_ = p.fd.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = p.fd.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = rc.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("process %d has not exited: %w", p.pid, context.Cause(ctx))
	}
	return err
}

func (p *process) close() { _ = p.fd.Close() }
