package recent

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"
)

// Keyed is what was read a moment ago about each of many things. However many want to know of one, one asks, and what they
// have together is bounded in bytes: what nobody has wanted for the longest goes first. A question goes on when who asked it
// has no more patience, so that its answer is there for the next. Failures are not kept.
type Keyed[K comparable, V any] struct {
	Most   int64         // bytes of all values
	Size   func(V) int64 // of one, in bytes
	Within time.Duration // what a question may take; zero: a minute
	Age    time.Duration // how long an answer is good, at least
	Thrift time.Duration // how many times as long as the question took it is good, at least
	Oldest time.Duration // how long it is good at most, however long it took; zero: no bound

	mu     sync.Mutex
	of     map[K]*list.Element
	order  list.List // of *known, what was wanted last in front
	bytes  int64
	asking map[K]*asked[V]
	past   int // counts calls of Forget
}

type known[K comparable, V any] struct {
	key   K
	value V
	bytes int64
	until time.Time
}

type asked[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// withinAtMost is how long a question may take for which nothing else is said.
const withinAtMost = time.Minute

// Get returns what is known of a key, or asks. It fails as read does or, where ctx ends before there is an answer, with the
// cause of that. What it returns is not to be changed: others have it, too.
func (m *Keyed[K, V]) Get(ctx context.Context, key K, read func(context.Context) (V, error)) (v V, err error) {
	m.mu.Lock()
	if v, ok := m.find(key); ok {
		m.mu.Unlock()
		return v, nil
	}
	q := m.asking[key]
	if q == nil {
		if m.asking == nil {
			m.asking = map[K]*asked[V]{}
		}
		q = &asked[V]{done: make(chan struct{})}
		m.asking[key] = q
		go m.answer(context.WithoutCancel(ctx), key, q, m.past, read)
	}
	m.mu.Unlock()
	select {
	case <-q.done:
		return q.value, q.err
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// Forget has everything be asked again, also what is being asked now.
func (m *Keyed[K, V]) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of, m.asking, m.bytes = nil, nil, 0
	m.order.Init()
	m.past++
}

// find returns what is known and still good. The caller holds the lock.
func (m *Keyed[K, V]) find(key K) (v V, ok bool) {
	e := m.of[key]
	if e == nil {
		return v, false
	}
	k := e.Value.(*known[K, V])
	if !time.Now().Before(k.until) {
		m.drop(e)
		return v, false
	}
	m.order.MoveToFront(e)
	return k.value, true
}

func (m *Keyed[K, V]) answer(ctx context.Context, key K, q *asked[V], past int, read func(context.Context) (V, error)) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(m.Within, withinAtMost))
	defer cancel()
	began := time.Now()
	q.value, q.err = read(ctx)
	m.mu.Lock()
	if m.asking[key] == q {
		delete(m.asking, key)
	}
	if q.err == nil && m.past == past {
		m.keep(key, q.value, time.Since(began))
	}
	m.mu.Unlock()
	close(q.done)
}

// keep remembers an answer that took so long. The caller holds the lock.
func (m *Keyed[K, V]) keep(key K, v V, took time.Duration) {
	age := max(m.Age, m.Thrift*took)
	if m.Oldest > 0 {
		age = min(age, m.Oldest)
	}
	k := &known[K, V]{key, v, m.Size(v), time.Now().Add(age)}
	if k.bytes > m.Most || age == 0 {
		return
	}
	if e := m.of[key]; e != nil {
		m.drop(e)
	}
	for m.bytes+k.bytes > m.Most {
		m.drop(m.order.Back())
	}
	if m.of == nil {
		m.of = map[K]*list.Element{}
	}
	m.of[key], m.bytes = m.order.PushFront(k), m.bytes+k.bytes
}

func (m *Keyed[K, V]) drop(e *list.Element) {
	k := m.order.Remove(e).(*known[K, V])
	delete(m.of, k.key)
	m.bytes -= k.bytes
}
