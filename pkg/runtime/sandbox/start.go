package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/poll"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// Stream is a connection between a program and its caller.
type Stream struct {
	conn    *net.UnixConn
	toll    *toll.Meter   // of the attempt
	theirs  *os.File      // the program's end
	begun   chan struct{} // closed when the program runs
	stopped chan struct{} // closed to end the program
	once    sync.Once
}

func newStream() (*Stream, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a stream: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "stream"), os.NewFile(uintptr(fds[1]), "stream")
	conn, err := net.FileConn(ours) // a separate descriptor
	if err = errors.Join(err, ours.Close()); err != nil {
		_ = theirs.Close()
		return nil, fmt.Errorf("make a stream: %w", err)
	}
	return &Stream{conn: conn.(*net.UnixConn), toll: new(toll.Meter), theirs: theirs, begun: make(chan struct{}), stopped: make(chan struct{})}, nil
}

// begin records that the program runs and has its end. s is nil for a program without a stream.
func (s *Stream) begin() {
	if s != nil {
		_ = s.theirs.Close()
		close(s.begun)
	}
}

// stop returns a channel that is closed to end the program.
func (s *Stream) stop() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.stopped
}

// end records that all processes of the program have ended, or that it did not start. Its last data
// can still be read.
func (s *Stream) end() {
	if s != nil {
		_ = s.theirs.Close()
		_, _ = s.conn.CloseWrite(), s.conn.CloseRead()
	}
}

// hungUp reports whether the program has closed its end.
func (s *Stream) hungUp() bool {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return false
	}
	var ready int16
	err = raw.Control(func(fd uintptr) { ready, _ = poll.Now(fd, unix.POLLRDHUP) })
	return err == nil && ready != 0
}

// messages implements owntime.Messages.
type messages struct {
	stream *Stream
	waits  *runtime.Waits
	read   int64 // at the last call
}

func (m *messages) Unread() bool { return m.stream.unread() }

func (m *messages) Read() bool {
	before := m.read
	m.read = m.waits.Responses()
	return m.read != before
}

// unread reports whether the program has sent data that the worker has not read.
func (s *Stream) unread() bool {
	if s == nil {
		return false
	}
	raw, err := s.conn.SyscallConn()
	return err == nil && poll.Ready(raw)
}

// started is a runtime.Process.
type started struct {
	*Stream
	done   chan struct{} // closed when report and err are set
	report *runtime.Report
	err    error
}

// Start calls run with a stream for its program. It returns when the program runs, or run has
// returned.
func Start(run func(*Stream) (*runtime.Report, error)) (runtime.Process, error) {
	s, err := newStream()
	if err != nil {
		return nil, err
	}
	p := &started{Stream: s, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer s.end()
		p.report, p.err = run(s)
	}()
	select {
	case <-s.begun:
	case <-p.done:
		if p.err != nil {
			return nil, errors.Join(p.err, s.conn.Close())
		}
	}
	return p, nil
}

// Conn implements runtime.Process. It charges the program for reads and writes.
func (p *started) Conn() net.Conn {
	select {
	case <-p.begun:
		return toll.Conn(p.conn, p.toll, false)
	default:
		return nil
	}
}

// Stop implements runtime.Process. The program's watch kills it.
func (p *started) Stop() {
	p.once.Do(func() {
		if p.hungUp() { // it is about to end by itself, and its outcome is needed
			time.AfterFunc(drainTime, func() { close(p.stopped) })
			return
		}
		close(p.stopped)
	})
}

// Wait implements runtime.Process.
func (p *started) Wait() (*runtime.Report, error) {
	<-p.done
	_ = p.conn.Close()
	return p.report, p.err
}
