// Package recent remembers for a moment what was read from the database, for however many
// ask for it at once.
package recent

import (
	"cmp"
	"context"
	"sync"
	"time"
)

const (
	// askFor is how long a question to the database may take that many wait for, where
	// they can do without the answer.
	askFor = 2 * time.Second
	// staleAfter is how long after such a question was asked those who wait for its
	// answer take what was known before, if anything was.
	staleAfter = 100 * time.Millisecond
)

// Value is what was read from the database a moment ago. However many want it,
// one asks, and nobody holds a lock meanwhile. Where that takes long or fails, others
// have what was known before; only where nothing was do they wait for the end of it.
// The next question comes when the answer, or the failure, is as old as Age says.
type Value[V any] struct {
	Read   func(ctx context.Context) (V, error)
	Within time.Duration // what a question may take; zero: askFor
	Age    time.Duration
	// Thrift is how many times as long as the question took its answer is good, at
	// least.
	Thrift time.Duration

	mu     sync.Mutex
	value  V
	known  bool
	err    error // of the last question
	next   time.Time
	asking *question
}

type question struct {
	began time.Time
	done  chan struct{}
}

// Get returns what is known, false if nothing is, and why the last question failed; nil
// if it did not.
func (m *Value[V]) Get(ctx context.Context) (v V, known bool, err error) {
	q := m.ask()
	if q != nil {
		m.await(ctx, q)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known && m.err == nil { // the caller would not wait any longer
		return m.value, false, context.Cause(ctx)
	}
	return m.value, m.known, m.err
}

// Latest returns what is known, however old, without asking.
func (m *Value[V]) Latest() V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value
}

// ask returns the question under way, a new one if it is time; nil: there is no need.
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
