package recent

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"
)

// Keyed caches recent values of many keys. Concurrent callers of one key share one read. The total
// size of the values is limited; the least recently used are dropped first. A read continues after
// its caller gives up, so that the next caller has the value. Failures are not cached.
type Keyed[K comparable, V any] struct {
	Most   int64         // maximum size of all values, in bytes
	Size   func(V) int64 // of one value, in bytes
	Within time.Duration // timeout of a read; zero: a minute
	Age    time.Duration // minimum lifetime of a value
	Thrift time.Duration // minimum lifetime as a multiple of the duration of the read
	Oldest time.Duration // maximum lifetime, however long the read took; zero: no limit

	mu     sync.Mutex
	of     map[K]*list.Element
	order  list.List // of *entry, the most recently used first
	bytes  int64
	asking map[K]*flight[V]
	past   int // counts calls of Forget
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int64
	until time.Time
}

type flight[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// defaultTimeout is the default timeout of a read.
const defaultTimeout = time.Minute

// Get returns the cached value of a key, or reads it. It returns the error of read. If ctx ends
// first, it returns the cause of ctx. The value is shared with other callers: do not change it.
func (m *Keyed[K, V]) Get(ctx context.Context, key K, read func(context.Context) (V, error)) (v V, err error) {
	m.mu.Lock()
	if v, ok := m.find(key); ok {
		m.mu.Unlock()
		return v, nil
	}
	q := m.asking[key]
	if q == nil {
		if m.asking == nil {
			m.asking = map[K]*flight[V]{}
		}
		q = &flight[V]{done: make(chan struct{})}
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

// Forget drops all values. The results of current reads are not cached.
func (m *Keyed[K, V]) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of, m.asking, m.bytes = nil, nil, 0
	m.order.Init()
	m.past++
}

// find returns the cached value if it has not expired. The caller holds the lock.
func (m *Keyed[K, V]) find(key K) (v V, ok bool) {
	e := m.of[key]
	if e == nil {
		return v, false
	}
	k := e.Value.(*entry[K, V])
	if !time.Now().Before(k.until) {
		m.drop(e)
		return v, false
	}
	m.order.MoveToFront(e)
	return k.value, true
}

func (m *Keyed[K, V]) answer(ctx context.Context, key K, q *flight[V], past int, read func(context.Context) (V, error)) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(m.Within, defaultTimeout))
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

// keep caches a value whose read took that long. The caller holds the lock.
func (m *Keyed[K, V]) keep(key K, v V, took time.Duration) {
	age := max(m.Age, m.Thrift*took)
	if m.Oldest > 0 {
		age = min(age, m.Oldest)
	}
	k := &entry[K, V]{key, v, m.Size(v), time.Now().Add(age)}
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
	k := m.order.Remove(e).(*entry[K, V])
	delete(m.of, k.key)
	m.bytes -= k.bytes
}
