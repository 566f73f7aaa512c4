package egress

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// errBytes ends a transfer above the limit.
var errBytes = errors.New("the limit of bytes is reached")

// meter counts a job's traffic in both directions together.
type meter struct {
	max            int64 // 0: unlimited
	used           atomic.Int64
	sent, received atomic.Int64
	exceeded       atomic.Bool
}

// take counts n bytes and returns how many of them are within the limit. After a result below n no
// bytes are left.
func (m *meter) take(n int) int {
	used := m.used.Add(int64(n))
	if m.max <= 0 || used <= m.max {
		return n
	}
	m.exceeded.Store(true)
	granted := max(0, int64(n)-(used-m.max))
	m.used.Add(granted - int64(n))
	return int(granted)
}

// full reports whether no bytes are left.
func (m *meter) full() bool { return m.max > 0 && m.used.Load() >= m.max }

// lookUp counts a name sent to the resolver, and so to the owner of the name. It returns false
// above the limit.
func (m *meter) lookUp(name string) bool {
	granted := m.take(len(name))
	m.sent.Add(int64(granted))
	return granted == len(name)
}

// upstream is a metered connection to a host. Its opener closes it.
type upstream struct {
	net.Conn
	entry *entry
	meter *meter
}

// Read may discard received bytes above the limit.
func (u *upstream) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	granted := u.meter.take(n)
	u.meter.received.Add(int64(granted))
	count.moved(count.received, granted)
	u.entry.received.Add(int64(granted))
	if granted < n {
		return granted, errBytes
	}
	return n, err
}

func (u *upstream) Write(p []byte) (int, error) {
	granted := u.meter.take(len(p))
	n, err := u.Conn.Write(p[:granted])
	u.meter.sent.Add(int64(n))
	count.moved(count.sent, n)
	u.entry.sent.Add(int64(n))
	if err == nil && granted < len(p) {
		err = errBytes
	}
	return n, err
}

func (u *upstream) CloseWrite() error { return closeWrite(u.Conn) }

func closeWrite(c net.Conn) error {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// lively is a connection that fails after a long idle time of all connections that share its clock.
type lively struct {
	net.Conn
	idle time.Duration
	last *atomic.Int64 // nanoseconds of time.Since(start)
}

var start = time.Now()

func (l *lively) touch() { l.last.Store(int64(time.Since(start))) }

func (l *lively) left() time.Duration {
	return l.idle - (time.Since(start) - time.Duration(l.last.Load()))
}

func (l *lively) Read(p []byte) (int, error) {
	for {
		if err := l.SetReadDeadline(time.Now().Add(max(l.left(), time.Millisecond))); err != nil {
			return 0, err
		}
		n, err := l.Conn.Read(p)
		if n > 0 {
			l.touch()
		}
		var timeout net.Error
		if n == 0 && errors.As(err, &timeout) && timeout.Timeout() && l.left() > 0 {
			continue // the other direction was active
		}
		return n, err
	}
}

// Write gives each buffer the whole idle time.
func (l *lively) Write(p []byte) (int, error) {
	if err := l.SetWriteDeadline(time.Now().Add(l.idle)); err != nil {
		return 0, err
	}
	n, err := l.Conn.Write(p)
	if n > 0 {
		l.touch()
	}
	return n, err
}

func (l *lively) CloseWrite() error { return closeWrite(l.Conn) }
