package toll

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wake is the approximate cost of waking a goroutine when data arrives, which no thread's CPU time
// includes completely.
const wake = 15 * time.Microsecond

// Reader reads from a pipe or a socket of a job and charges the job. Many small parts cost more
// than a few large ones.
type Reader struct {
	raw   syscall.RawConn
	meter *Meter
	cost  func(time.Duration) // adds to the meter
}

// NewReader returns a reader of c that charges m and is not delayed by a ration.
func NewReader(c syscall.Conn, m *Meter) (*Reader, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Reader{raw: raw, meter: m, cost: m.Charge}, nil
}

// Read implements io.Reader. It respects the deadline of the pipe or socket.
func (r *Reader) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	failed := r.raw.Read(func(fd uintptr) bool {
		n, err = r.try(func() (int, error) { return unix.Read(int(fd), b) })
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// try makes a non-blocking system call, and repeats it after a signal.
func (r *Reader) try(call func() (int, error)) (n int, err error) {
	began := begin()
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	cost := finish(began)
	if errors.Is(err, unix.EAGAIN) {
		cost += wake
	}
	r.cost(cost)
	return n, err
}

// Writer returns a writer to w that charges m. It is for non-blocking writes, or for goroutines
// that may block a thread.
func Writer(w io.Writer, m *Meter) io.Writer { return writer{w, m} }

type writer struct {
	io.Writer
	meter *Meter
}

// Write implements io.Writer.
func (w writer) Write(b []byte) (n int, err error) {
	w.meter.Measure(func() { n, err = w.Writer.Write(b) })
	return n, err
}

// conn is a connection that charges for its bytes.
type conn struct {
	net.Conn
	Reader
}

// Conn returns c with reads and writes charged to m, as requests of its program if requested is
// set. It returns a connection without a descriptor unchanged.
func Conn(c net.Conn, m *Meter, requested bool) net.Conn {
	s, ok := c.(syscall.Conn)
	if !ok || m == nil {
		return c
	}
	r, err := NewReader(s, m)
	if err != nil {
		return c // closed: the next call reports that
	}
	if requested {
		r.cost = m.Request
	}
	return &conn{c, *r}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) { return c.Reader.Read(b) }

// Write implements net.Conn.
func (c *conn) Write(b []byte) (sent int, err error) {
	for sent < len(b) {
		var n int
		failed := c.raw.Write(func(fd uintptr) bool {
			n, err = c.try(func() (int, error) { return unix.Write(int(fd), b[sent:]) })
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case failed != nil:
			return sent, failed
		case err != nil:
			return sent, os.NewSyscallError("write", err)
		}
		sent += n
	}
	return sent, nil
}

// CloseWrite closes the writing side, if the connection has one.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// SyscallConn implements syscall.Conn.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Of returns the meter of a connection, or nil.
func Of(c net.Conn) *Meter {
	if paid, ok := c.(*conn); ok {
		return paid.meter
	}
	return nil
}

// Raw returns the connection inside a Conn, for operations that Conn lacks. It returns other
// connections unchanged.
func Raw(c net.Conn) net.Conn {
	if paid, ok := c.(*conn); ok {
		return paid.Conn
	}
	return c
}
