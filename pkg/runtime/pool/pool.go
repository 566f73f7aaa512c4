// Package pool keeps what is slow to make ready ahead of demand.
//
// Items are interchangeable by key. A key that was asked for is kept warm until
// nobody has asked for a while: the number that is kept grows with each demand
// that found nothing, and shrinks while some of them are never touched. All keys
// share the bounds, of count and of memory, and the one that was asked for last
// is served first; its demand takes the places of keys that idle.
package pool

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Config says what a pool holds. Make and Drop are required.
type Config[K comparable, V any] struct {
	// Name is the pool's, in metrics and logs.
	Name string
	// Make makes a item. It is called from several goroutines.
	Make func(context.Context, K) (V, error)
	// Drop destroys one that nobody takes any more. It must not block.
	Drop func(V)
	// Alive tells whether a item that was ready still is; nil: always.
	Alive func(K, V) bool
	// Warm does what is worth doing only for a item that is made ahead of demand.
	// After an error the item is dropped; nil: nothing.
	Warm func(context.Context, K, V) error
	// Weigh returns the memory that a item takes while it waits, in bytes; nil: none.
	Weigh func(K) int64

	// Settle is how long after a taking the next item is made, as long as half of
	// what is kept is there: whoever takes one needs it now, and the making takes its
	// time from the same cores. 0: it is made at once.
	Settle time.Duration

	Most   int           // items ready or being made, all keys together; 0: nothing is kept
	Memory int64         // their memory, as weighed; 0: no bound
	Idle   time.Duration // how long a key stays warm after its last use; default a minute
	Age    time.Duration // when a item that still waits is dropped; 0: never
	Fill   int           // goroutines that make items ahead of demand; default 1
}

// Pool keeps items of type V. Its methods are safe for concurrent use.
type Pool[K comparable, V any] struct {
	Config[K, V]
	ctx   context.Context
	stop  context.CancelFunc
	wake  chan struct{}
	tasks sync.WaitGroup
	meter *meter

	mu      sync.Mutex
	buckets map[K]*bucket[K, V]
	count   int   // of items ready or being made
	weight  int64 // of them
	closed  bool
}

// bucket is the items of one key.
type bucket[K comparable, V any] struct {
	key    K
	ready  []entry[V] // the oldest first
	weight int64      // of each
	making int
	want   int
	low    int // fewest ready since the last tick
	used   time.Time
}

type entry[V any] struct {
	value V
	made  time.Time
}

// New returns a pool that works until it is closed.
func New[K comparable, V any](cfg Config[K, V]) *Pool[K, V] {
	if cfg.Idle <= 0 {
		cfg.Idle = time.Minute
	}
	if cfg.Alive == nil {
		cfg.Alive = func(K, V) bool { return true }
	}
	if cfg.Warm == nil {
		cfg.Warm = func(context.Context, K, V) error { return nil }
	}
	if cfg.Weigh == nil {
		cfg.Weigh = func(K) int64 { return 0 }
	}
	cfg.Fill = max(cfg.Fill, 1)
	p := &Pool[K, V]{Config: cfg, wake: make(chan struct{}, cfg.Fill), buckets: map[K]*bucket[K, V]{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.meter = newMeter(cfg.Name, p.levels)
	for range cfg.Fill {
		p.tasks.Go(p.fill)
	}
	p.tasks.Go(p.expireLoop)
	return p
}

// Get returns a ready item, or makes one. The error is Make's, or the cause of
// ctx.
func (p *Pool[K, V]) Get(ctx context.Context, key K) (V, error) {
	if err := context.Cause(ctx); err != nil {
		var none V
		return none, err
	}
	v, ok, urgent := p.take(key)
	if p.Settle > 0 && !urgent {
		time.AfterFunc(p.Settle, p.nudge)
	} else {
		p.nudge()
	}
	p.meter.taken(ctx, ok)
	if ok {
		return v, nil
	}
	begin := time.Now()
	v, err := p.Make(ctx, key)
	p.meter.waited(ctx, time.Since(begin))
	return v, err
}

// take returns a ready item, notes the demand, and reports whether others should
// be made at once.
func (p *Pool[K, V]) take(key K) (v V, ok, urgent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Most <= 0 || p.closed {
		return v, false, true
	}
	s := p.buckets[key]
	if s == nil {
		s = &bucket[K, V]{key: key, weight: p.Weigh(key)}
		p.buckets[key] = s
	}
	s.used = time.Now()
	for len(s.ready) > 0 {
		last := len(s.ready) - 1
		was := s.ready[last].value
		s.ready[last] = entry[V]{}
		s.ready = s.ready[:last]
		s.low = min(s.low, last)
		p.discount(s, 1)
		if p.Alive(key, was) {
			return was, true, 2*last+1 < s.want
		}
		p.Drop(was)
	}
	s.want = min(s.want+1, p.Most)
	return v, false, true
}

// Flush drops the ready items of key: they have become useless.
func (p *Pool[K, V]) Flush(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.buckets[key]; s != nil {
		p.drop(s, len(s.ready))
	}
}

// drop drops n ready items of s, the oldest first; the caller holds the lock.
func (p *Pool[K, V]) drop(s *bucket[K, V], n int) {
	for _, t := range s.ready[:n] {
		p.Drop(t.value)
	}
	s.ready = append(s.ready[:0:0], s.ready[n:]...)
	s.low = min(s.low, len(s.ready))
	p.discount(s, n)
}

// discount notes that n items of s are no longer the pool's; the caller holds
// the lock.
func (p *Pool[K, V]) discount(s *bucket[K, V], n int) {
	p.count -= n
	p.weight -= int64(n) * s.weight
}

// full reports whether another item of s would be too much; the caller holds
// the lock.
func (p *Pool[K, V]) full(s *bucket[K, V]) bool {
	return p.count >= p.Most || p.Memory > 0 && p.weight+s.weight > p.Memory
}

// nudge wakes those who fill.
func (p *Pool[K, V]) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Pool[K, V]) fill() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.wake:
		}
		for p.fillOne() {
		}
	}
}

// fillOne makes one item for a bucket that wants one. It reports whether another
// should be made.
func (p *Pool[K, V]) fillOne() bool {
	s := p.wanting()
	if s == nil {
		return false
	}
	p.nudge() // there may be work for another one who fills
	begin := time.Now()
	v, err := p.make(s.key)
	p.meter.made(p.ctx, time.Since(begin), err)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.making--
	switch {
	case err != nil:
		p.discount(s, 1)
		s.want = 0 // the next demand tries again, and hears why not
		if p.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			slog.WarnContext(p.ctx, "cannot fill the pool", "pool", p.Name, "key", s.key, "error", err)
		}
	case p.closed:
		p.discount(s, 1)
		p.Drop(v)
	default:
		s.ready = append(s.ready, entry[V]{v, time.Now()})
	}
	return err == nil && !p.closed
}

// make makes a item ahead of demand.
func (p *Pool[K, V]) make(key K) (V, error) {
	v, err := p.Make(p.ctx, key)
	if err != nil {
		return v, err
	}
	if err := p.Warm(p.ctx, key, v); err != nil {
		p.Drop(v)
		return v, err
	}
	return v, nil
}

// wanting returns a bucket that should be filled, and counts the item that the
// caller is about to make for it.
func (p *Pool[K, V]) wanting() *bucket[K, V] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	for {
		best, oldest := p.extremes()
		if best == nil {
			return nil
		}
		if !p.full(best) {
			best.making++
			p.count++
			p.weight += best.weight
			return best
		}
		if oldest == nil || oldest == best || !oldest.used.Before(best.used) {
			return nil
		}
		oldest.want--
		p.drop(oldest, 1)
	}
}

// extremes returns the bucket to fill first, if any, and the one to take from
// first; the caller holds the lock.
func (p *Pool[K, V]) extremes() (best, oldest *bucket[K, V]) {
	for _, s := range p.buckets {
		if len(s.ready)+s.making < s.want && (best == nil || s.used.After(best.used)) {
			best = s
		}
		if len(s.ready) > 0 && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	return best, oldest
}

// expireLoop forgets what nobody asks for.
func (p *Pool[K, V]) expireLoop() {
	tick := time.NewTicker(max(p.Idle/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case now := <-tick.C:
			p.expire(now)
			p.nudge() // what died or grew old may be wanted still
		}
	}
}

// expire drops the items of keys that are idle, and items that died, and
// keeps fewer where some were never touched.
func (p *Pool[K, V]) expire(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, s := range p.buckets {
		if now.Sub(s.used) > p.Idle {
			p.drop(s, len(s.ready))
			s.want = 0
			if s.making == 0 {
				delete(p.buckets, key)
			}
			continue
		}
		if s.low > 1 { // keep one of those that were not needed
			s.want = max(s.want-s.low/2, 1)
			p.drop(s, max(len(s.ready)-s.want, 0))
		}
		live := s.ready[:0:0]
		for _, t := range s.ready {
			if p.Alive(key, t.value) && (p.Age == 0 || now.Sub(t.made) < p.Age) {
				live = append(live, t)
				continue
			}
			p.Drop(t.value)
			p.discount(s, 1)
		}
		s.ready = live
		s.low = len(live)
	}
}

// levels returns how many items are ready, and how many are being made.
func (p *Pool[K, V]) levels() (ready, making int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.buckets {
		ready += int64(len(s.ready))
		making += int64(s.making)
	}
	return ready, making
}

// Ready returns how many items of key are ready.
func (p *Pool[K, V]) Ready(key K) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.buckets[key]; s != nil {
		return len(s.ready)
	}
	return 0
}

// Close drops everything and waits for what is being made.
func (p *Pool[K, V]) Close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.buckets {
		p.drop(s, len(s.ready))
		s.want = 0
	}
	p.mu.Unlock()
	p.stop()
	p.tasks.Wait()
	p.meter.close()
}
