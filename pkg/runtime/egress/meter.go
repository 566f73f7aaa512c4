package egress

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// errBytes ends a transfer that is over the limit.
var errBytes = errors.New("the limit of bytes is reached")

// meter counts what a job exchanges with hosts, in both directions together.
type meter struct {
	max            int64 // 0 for no limit
	used           atomic.Int64
	sent, received atomic.Int64
	exceeded       atomic.Bool
}

// take returns how many of n bytes are within the limit, and counts those. Once
// it returned less than n, no byte is left for anybody.
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

// full says whether nothing is left.
func (m *meter) full() bool { return m.max > 0 && m.used.Load() >= m.max }

// lookUp counts a name that is told to the resolver, and with it to whoever
// serves the name; false if that is over the limit.
func (m *meter) lookUp(name string) bool {
	granted := m.take(len(name))
	m.sent.Add(int64(granted))
	return granted == len(name)
}

// upstream is a connection to a host: metered, and closed by whoever opened it.
type upstream struct {
	net.Conn
	entry *entry
	meter *meter
}

// Read may have taken bytes from the network that it does not return, if they
// are over the limit.
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

// lively is a connection that fails when it, and the others that share its
// clock, have been idle for long.
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
			continue // the other direction was busy
		}
		return n, err
	}
}

// Write gives one buffer the whole idle time.
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
