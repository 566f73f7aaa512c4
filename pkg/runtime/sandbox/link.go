package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime/poll"
	"github.com/assay-run/assay/pkg/runtime/process"
)

// sendTime is how long a guest may take to read a message. A guest has no other work, so a slower
// one is broken.
const sendTime = 5 * time.Second

// Listen listens at name in dir for the guest of a sandbox whose root is host user uid. No other
// user can connect.
func Listen(network, dir, name string, uid int) (*net.UnixListener, error) {
	// The path of a socket has at most 107 bytes; a directory's may be longer.
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	path := filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name)
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		return nil, fmt.Errorf("listen for the guest: %w", err)
	}
	l.SetUnlinkOnClose(false) // path is invalid after d is closed
	socket := filepath.Join(dir, name)
	if err := errors.Join(os.Chmod(socket, 0o600), os.Chown(socket, uid, uid)); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Link is the worker's end of a guest's connection. One program runs at a time.
type Link struct {
	conn  *net.UnixConn
	Ended chan guest.ExitStatus
	Gone  chan struct{} // closed when the connection has ended
}

// Accept waits for the guest, process p, to connect and send its Hello.
func Accept(ctx context.Context, l *net.UnixListener, p *process.Process) (*Link, error) {
	conn, err := AcceptConn(ctx, l, p)
	if err != nil {
		return nil, err
	}
	k := &Link{conn: conn, Ended: make(chan guest.ExitStatus, 1), Gone: make(chan struct{})}
	go k.read()
	return k, nil
}

// AcceptConn is Accept for a guest with another protocol after its Hello.
func AcceptConn(ctx context.Context, l *net.UnixListener, p *process.Process) (*net.UnixConn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		if p.Wait(ctx) == nil {
			cancel(errors.New("it exited"))
		}
	})
	defer watching.Wait()
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })()
	conn, err := l.AcceptUnix()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("wait for the guest: %w", err)
	}
	var hello guest.Hello
	_ = conn.SetReadDeadline(time.Now().Add(sendTime))
	if err = guest.Decode(conn, &hello, guest.MaxWord); err == nil && hello.Version != guest.Version {
		err = fmt.Errorf("its protocol version is %d, not %d: guest and worker are from different builds", hello.Version, guest.Version)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("greet the guest: %w", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	return conn, nil
}

// read forwards the guest's messages until its end or a violation of the protocol.
func (k *Link) read() {
	defer close(k.Gone)
	defer k.conn.Close()
	for {
		var e guest.ExitStatus
		if err := guest.Decode(k.conn, &e, guest.MaxWord); err != nil {
			return
		}
		select {
		case k.Ended <- e:
		default:
			return // unexpected
		}
	}
}

// HasReported reports whether the guest has reported the end of its program, read or unread, or is gone.
func (k *Link) HasReported() bool {
	raw, err := k.conn.SyscallConn()
	return len(k.Ended) > 0 || err != nil || poll.Ready(raw)
}

// Start sends s with its descriptors.
func (k *Link) Start(s guest.Start, files []*os.File) error {
	frame, err := guest.Encode(s)
	if err != nil {
		return err
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	_ = k.conn.SetWriteDeadline(time.Now().Add(sendTime))
	n, _, err := k.conn.WriteMsgUnix(frame, unix.UnixRights(fds...), nil)
	if err == nil {
		_, err = k.conn.Write(frame[n:])
	}
	if err != nil {
		return fmt.Errorf("send to the guest: %w", err)
	}
	return nil
}

// Close ends the connection, and with it the guest.
func (k *Link) Close() { _ = k.conn.Close() }

// Gate is the worker's end of a gate: see package guest.
type Gate struct{ Conn *net.UnixConn }

// NewGate returns both ends. The caller closes them.
func NewGate() (*Gate, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a gate: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "gate"), os.NewFile(uintptr(fds[1]), "gate")
	defer ours.Close() // FileConn has its own
	err = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	var conn net.Conn
	if err == nil {
		conn, err = net.FileConn(ours)
	}
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("make a gate: %w", err)
	}
	return &Gate{conn.(*net.UnixConn)}, theirs, nil
}

// Wait returns the process at the gate, as authenticated by the kernel.
func (g *Gate) Wait() (pid int, err error) {
	var word [8]byte
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := g.Conn.ReadMsgUnix(word[:], oob)
	if err != nil {
		return 0, fmt.Errorf("wait at the gate: %w", err)
	}
	if n != 1 || word[0] != guest.GateReady {
		return 0, errors.New("wait at the gate: the guest breaks its protocol")
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("wait at the gate: no credentials (%w)", err)
	}
	cred, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0, fmt.Errorf("wait at the gate: %w", err)
	}
	return int(cred.Pid), nil
}

// Failure is why a process could not become the program.
type Failure struct {
	Stage guest.Stage
	Errno unix.Errno
}

// Error implements error.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Stage, f.Errno) }

// Result waits for the program to start. A *Failure means that it could not.
func (g *Gate) Result() error {
	var word [8]byte
	n, err := g.Conn.Read(word[:])
	switch {
	case err == io.EOF || err == nil && n == 0:
		return nil
	case err != nil:
		return fmt.Errorf("pass the gate: %w", err)
	case n != 6 || word[0] != guest.GateFailed:
		return errors.New("pass the gate: the guest breaks its protocol")
	}
	return &Failure{guest.Stage(word[1]), unix.Errno(binary.LittleEndian.Uint32(word[2:6]))}
}

// Close closes our end. A process at the gate then exits.
func (g *Gate) Close() { _ = g.Conn.Close() }
