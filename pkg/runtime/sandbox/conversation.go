package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime"
)

// conversation is a stream between a program and whoever talks with it.
type conversation struct {
	converse runtime.Converse
	conn     net.Conn
	theirs   *os.File
}

// converse returns nil for nobody.
func converse(f runtime.Converse) (*conversation, error) {
	if f == nil {
		return nil, nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a stream: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "conversation"), os.NewFile(uintptr(fds[1]), "conversation")
	conn, err := net.FileConn(ours) // a descriptor of its own
	if err = errors.Join(err, ours.Close()); err != nil {
		_ = theirs.Close()
		return nil, fmt.Errorf("make a stream: %w", err)
	}
	return &conversation{converse: f, conn: conn, theirs: theirs}, nil
}

// begin starts to talk, and has the program stopped when that is over. The
// returned function is called when nothing of the program is left; it waits for
// the end of the talk.
func (c *conversation) begin(ctx context.Context, stop *stopper) func() error {
	if c == nil {
		return func() error { return nil }
	}
	_ = c.theirs.Close() // the program has its own by now
	ctx, cancel := context.WithCancel(ctx)
	done, over := make(chan error, 1), make(chan struct{})
	go func() {
		done <- c.converse(ctx, c.conn)
		if c.hungUp() { // it is about to end by itself, and how is worth knowing
			select {
			case <-over:
				return
			case <-time.After(drainTime):
			}
		}
		stop.now(stopDone)
	}()
	return func() error {
		defer cancel()
		close(over)
		late := time.NewTimer(drainTime)
		defer late.Stop()
		select { // what the program said last is read before its end is
		case err := <-done:
			return err
		case <-late.C:
		}
		cancel()
		_ = c.conn.Close()
		return <-done
	}
}

// hungUp reports whether the program has closed its end.
func (c *conversation) hungUp() bool {
	raw, err := c.conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	fds := []unix.PollFd{{Events: unix.POLLRDHUP}}
	err = raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		_, _ = unix.Poll(fds, 0)
	})
	return err == nil && fds[0].Revents != 0
}

// close is for a program that never began, too.
func (c *conversation) close() {
	if c != nil {
		_ = c.theirs.Close()
		_ = c.conn.Close()
	}
}
