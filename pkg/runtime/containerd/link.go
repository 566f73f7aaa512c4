package containerd

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
	"github.com/assay-run/assay/pkg/runtime/process"
)

// sendTime is how long a guest may take to read what we send: it does nothing
// else, so a guest that does not is broken.
const sendTime = 5 * time.Second

// listen listens at name in dir for the guest of a sandbox whose root is host
// user uid; nobody else can connect.
func listen(network, dir, name string, uid int) (*net.UnixListener, error) {
	// The path of a socket has at most 107 bytes, that of a directory has not.
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
	l.SetUnlinkOnClose(false) // path means nothing once d is closed
	socket := filepath.Join(dir, name)
	if err := errors.Join(os.Chmod(socket, 0o600), os.Chown(socket, uid, uid)); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// link is the worker's end of a guest's connection. One program runs at a time.
type link struct {
	conn  *net.UnixConn
	ended chan guest.Ended
	gone  chan struct{} // closed when the connection has ended
}

// accept waits for the guest, which is process p, to connect and to introduce
// itself.
func accept(ctx context.Context, l *net.UnixListener, p *process.Process) (*link, error) {
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
		err = fmt.Errorf("it speaks version %d, not %d: guest and worker are from different builds", hello.Version, guest.Version)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("greet the guest: %w", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	k := &link{conn: conn, ended: make(chan guest.Ended, 1), gone: make(chan struct{})}
	go k.read()
	return k, nil
}

// read passes on what the guest says, until it is gone or says what it may not.
func (k *link) read() {
	defer close(k.gone)
	defer k.conn.Close()
	for {
		var e guest.Ended
		if err := guest.Decode(k.conn, &e, guest.MaxWord); err != nil {
			return
		}
		select {
		case k.ended <- e:
		default:
			return // nobody asked
		}
	}
}

// start sends s with its descriptors.
func (k *link) start(s guest.Start, files []*os.File) error {
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

func (k *link) close() { _ = k.conn.Close() }

// gate is the worker's end of a gate: see package guest.
type gate struct{ conn *net.UnixConn }

// newGate returns both ends. The caller closes them.
func newGate() (*gate, *os.File, error) {
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
	return &gate{conn.(*net.UnixConn)}, theirs, nil
}

// wait returns the process that waits at the gate, by the kernel's word.
func (g *gate) wait() (pid int, err error) {
	var word [8]byte
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := g.conn.ReadMsgUnix(word[:], oob)
	if err != nil {
		return 0, fmt.Errorf("wait at the gate: %w", err)
	}
	if n != 1 || word[0] != guest.GateHere {
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

// failure is why a process could not become the program.
type failure struct {
	stage guest.Stage
	errno unix.Errno
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %s", f.stage, f.errno) }

// result waits for the program to begin. A *failure says that it could not.
func (g *gate) result() error {
	var word [8]byte
	n, err := g.conn.Read(word[:])
	switch {
	case err == io.EOF || err == nil && n == 0:
		return nil
	case err != nil:
		return fmt.Errorf("pass the gate: %w", err)
	case n != 6 || word[0] != guest.GateFailed:
		return errors.New("pass the gate: the guest breaks its protocol")
	}
	return &failure{guest.Stage(word[1]), unix.Errno(binary.LittleEndian.Uint32(word[2:6]))}
}

func (g *gate) close() { _ = g.conn.Close() }
