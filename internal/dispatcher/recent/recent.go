// Package recent caches values from the database for a short time and shares reads between
// concurrent callers.
package recent

import (
	"cmp"
	"context"
	"sync"
	"time"
)

const (
	// askFor is the default timeout of a shared read. Its callers can continue without the value.
	askFor = 2 * time.Second
	// staleAfter is how long callers wait for a read before they use the previous value, if there is
	// one.
	staleAfter = 100 * time.Millisecond
)

// Value caches a recent value from the database. Concurrent callers share one read, and no lock is
// held during the read. If the read is slow or fails, callers get the previous value. They wait for
// the end of the read only if there is no previous value. The next read starts when the value, or
// the failure, is as old as Age.
type Value[V any] struct {
	Read   func(ctx context.Context) (V, error)
	Within time.Duration // timeout of a read; zero: askFor
	Age    time.Duration
	// Thrift is the minimum lifetime of a value as a multiple of the duration of the read.
	Thrift time.Duration

	mu     sync.Mutex
	value  V
	known  bool
	err    error // of the last read
	next   time.Time
	asking *question
}

type question struct {
	began time.Time
	done  chan struct{}
}

// Get returns the value, false if there is none, and the error of the last read.
func (m *Value[V]) Get(ctx context.Context) (v V, known bool, err error) {
	q := m.ask()
	if q != nil {
		m.await(ctx, q)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known && m.err == nil { // the caller stopped waiting
		return m.value, false, context.Cause(ctx)
	}
	return m.value, m.known, m.err
}

// Latest returns the cached value, however old, without a read.
func (m *Value[V]) Latest() V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value
}

// ask returns the current read, or starts a new one if it is due. It returns nil if no read is
// necessary.
func (m *Value[V]) ask() *question {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking == nil && !time.Now().Before(m.next) {
		m.asking = &question{began: time.Now(), done: make(chan struct{})}
		go m.answer(m.asking)
	}
	return m.asking
}

func (m *Value[V]) answer(q *question) {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(m.Within, askFor))
	defer cancel()
	defer close(q.done)
	v, err := m.Read(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asking, m.err = nil, err
	m.next = time.Now().Add(max(m.Age, m.Thrift*time.Since(q.began)))
	if err == nil {
		m.value, m.known = v, true
	}
}

// await returns when q is answered, ctx ends, or there is no more reason to wait.
func (m *Value[V]) await(ctx context.Context, q *question) {
	m.mu.Lock()
	known := m.known
	m.mu.Unlock()
	var enough <-chan time.Time
	if known {
		timer := time.NewTimer(time.Until(q.began.Add(staleAfter)))
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-q.done:
	case <-enough:
	case <-ctx.Done():
	}
}
