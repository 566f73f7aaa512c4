package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// firstFile is above every descriptor of a program, so that moving descriptors never overwrites
// one.
const firstFile = 2 * guest.MaxFiles

// request is a Start with its descriptors.
type request struct {
	start guest.Start
	files []int
}

// Task is the guest of isolation task: it serves the worker that listens on socket until the
// connection ends.
func Task(socket string) error {
	if os.Getpid() != 1 {
		return errors.New("the guest must be process 1 of a sandbox")
	}
	upLoopback()
	conn, err := connect(socket)
	if err != nil {
		return err
	}
	requests := make(chan request)
	go receive(conn, requests)
	for r := range requests {
		if err := send(conn, r.run()); err != nil {
			return err
		}
	}
	return nil
}

// connect connects to the worker and sends Hello.
func connect(socket string) (int, error) {
	conn, err := dial(socket)
	if err != nil {
		return -1, fmt.Errorf("connect to the worker: %w", err)
	}
	return conn, send(conn, guest.Hello{Version: guest.Version})
}

// receive passes requests on. The end of the connection ends the guest at once, and the kernel then
// kills the whole sandbox.
func receive(conn int, requests chan<- request) {
	for {
		var r request
		var err error
		if r.files, err = recv(conn, &r.start); err != nil {
			os.Exit(0)
		}
		requests <- r
	}
}

func (r *request) run() guest.ExitStatus {
	defer func() {
		for _, fd := range r.files {
			_ = unix.Close(fd)
		}
	}()
	c, err := prepare(&r.start, r.files)
	if err != nil {
		return guest.ExitStatus{Error: err.Error()}
	}
	pid, err := c.fork()
	if err != nil {
		return guest.ExitStatus{Error: "fork: " + err.Error()}
	}
	// The child has its own copies. Close ours, so that the worker sees the end of the gate and the
	// pipes.
	for _, fd := range r.files {
		_ = unix.Close(fd)
	}
	r.files = nil
	return guest.ExitStatus{Status: reap(pid)}
}

// reap waits for pid and reaps other processes. Then it kills the processes that pid left behind
// and waits for them.
func reap(pid int) (status int) {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD: no process is left
			return status
		case got == pid && !ws.Stopped(): // a traced program stops, too
			status = int(ws)
			_ = unix.Kill(-1, unix.SIGKILL)
		}
	}
}

// upLoopback brings lo up, so that a program can connect to itself. A sandbox without it still
// works.
func upLoopback() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return
	}
	req.SetUint16(unix.IFF_UP)
	_ = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

func dial(socket string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fd, unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
}

func send(conn int, v any) error {
	frame, err := guest.Encode(v)
	if err != nil {
		return err
	}
	for len(frame) > 0 {
		n, err := unix.Write(conn, frame)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("write to the worker: %w", err)
		}
		frame = frame[max(n, 0):]
	}
	return nil
}

// recv reads one frame and its descriptors.
func recv(conn int, v any) ([]int, error) {
	r := &receiver{conn: conn}
	err := guest.Decode(r, v, guest.MaxFrame)
	return r.files, err
}

// receiver reads a connection and collects descriptors.
type receiver struct {
	conn  int
	files []int
}

func (r *receiver) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4*guest.MaxFiles))
	for {
		n, oobn, _, _, err := unix.Recvmsg(r.conn, p, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if err := r.collect(oob[:oobn]); err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
}

func (r *receiver) collect(oob []byte) error {
	if len(bytes.TrimLeft(oob, "\x00")) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return err
		}
		for _, fd := range fds {
			high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstFile)
			_ = unix.Close(fd)
			if err != nil {
				return err
			}
			r.files = append(r.files, high)
		}
	}
	return nil
}
