package packet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime/poll"
)

// Conn is one end of a connection with message boundaries: SOCK_SEQPACKET. It is not a
// net.UnixConn, because creating one costs six system calls, and every job needs two.
type Conn struct {
	File *os.File
	raw  syscall.RawConn
}

// newPacket takes ownership of fd, a non-blocking socket.
func newPacket(fd int) (*Conn, error) {
	p := &Conn{File: os.NewFile(uintptr(fd), "packet")}
	var err error
	if p.raw, err = p.File.SyscallConn(); err != nil {
		_ = p.File.Close()
		return nil, err
	}
	return p, nil
}

// Of converts conn, which it closes, to a Conn.
func Of(conn *net.UnixConn) (*Conn, error) {
	file, err := conn.File()
	if err = errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("keep a connection: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("keep a connection: %w", err)
	}
	return newPacket(fd)
}

// Pair returns our end, which receives senders' credentials, and a descriptor of the other end,
// which the caller closes.
func Pair() (ours *Conn, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("make a socket: %w", err)
	}
	err = errors.Join(unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1), unix.SetNonblock(fds[0], true))
	if err == nil {
		ours, err = newPacket(fds[0])
	} else {
		_ = unix.Close(fds[0])
	}
	if err != nil {
		_ = unix.Close(fds[1])
		return nil, -1, fmt.Errorf("make a socket: %w", err)
	}
	return ours, fds[1], nil
}

// Send sends one message with descriptors.
func (p *Conn) Send(b []byte, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	var err error
	werr := p.raw.Write(func(fd uintptr) bool {
		for {
			err = unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_NOSIGNAL)
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	return errors.Join(werr, err)
}

// Receive receives one message into b. pid is the sender's if credentials are enabled. The end of
// the connection is io.EOF.
func (p *Conn) Receive(b []byte) (n, pid int, err error) {
	var oob [64]byte
	var oobn int
	rerr := p.raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, _, _, err = unix.Recvmsg(int(fd), b, oob[:], unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	switch {
	case rerr != nil:
		return 0, 0, rerr
	case err != nil:
		return 0, 0, err
	case n == 0:
		return 0, 0, io.EOF
	}
	return n, sender(oob[:oobn]), nil
}

// sender returns the process in a control message and closes received descriptors, which are never
// expected.
func sender(oob []byte) (pid int) {
	if len(oob) == 0 {
		return 0
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for i := range messages {
		if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			pid = int(cred.Pid)
		} else if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
		}
	}
	return pid
}

// IsClosed reports whether the other end is closed. A dead process's end is closed before any other
// effect of its death.
func (p *Conn) IsClosed() bool {
	ended := false
	_ = p.raw.Control(func(fd uintptr) {
		ready, err := poll.Now(fd, unix.POLLIN)
		ended = err == nil && ready&unix.POLLHUP != 0
	})
	return ended
}

// Waits reports whether an unread message is available, or the other end is closed.
func (p *Conn) Waits() bool { return poll.Ready(p.raw) }

// BindContext makes the end of ctx interrupt p's waits. The returned function undoes that, even if ctx
// ended just after the last wait.
func (p *Conn) BindContext(ctx context.Context) (stop func()) {
	ended := make(chan struct{})
	undo := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = p.File.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !undo() {
			<-ended
			_ = p.File.SetDeadline(time.Time{})
		}
	}
}

// Close closes this end.
func (p *Conn) Close() { _ = p.File.Close() }

// Expect receives the one expected message and returns its sender.
func (p *Conn) Expect(kind byte) (pid int, err error) {
	var b [512]byte
	n, pid, err := p.Receive(b[:])
	switch {
	case err != nil:
		return 0, err
	case b[0] == kind:
		return pid, nil
	case b[0] == guest.BoxFailed && n >= 5:
		return 0, fmt.Errorf("%s: %w", b[5:n], unix.Errno(binary.LittleEndian.Uint32(b[1:])))
	}
	return 0, errors.New("the guest breaks its protocol")
}
