// Package pool keeps items ready that are slow to create.
//
// Items with equal keys are interchangeable. A requested key stays warm until it is idle for a
// while. The number of its items grows with each request that found none, and shrinks while some
// are never used. All keys share the limits of count and memory. The last requested key has
// priority and displaces items of idle keys.
package pool

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Config configures a pool. Make and Drop are required.
type Config[K comparable, V any] struct {
	// Name is the pool's name in metrics and logs.
	Name string
	// Make creates an item. Several goroutines call it.
	Make func(context.Context, K) (V, error)
	// Drop destroys an unneeded item. It must not block.
	Drop func(V)
	// Alive reports whether a ready item is still usable. Nil: always.
	Alive func(K, V) bool
	// Warm prepares an item that is created in advance. After an error the item is dropped. Nil:
	// nothing.
	Warm func(context.Context, K, V) error
	// Weigh returns the memory of a waiting item, in bytes. Nil: none.
	Weigh func(K) int64

	// Settle is the delay between a request and the creation of the next item, while at least half of
	// the items are ready. The creation would compete for cores with the requester. 0: no delay.
	Settle time.Duration

	Most   int           // ready and pending items of all keys; 0: none are kept
	Memory int64         // total weight; 0: unlimited
	Idle   time.Duration // how long a key stays warm after its last use; default a minute
	Age    time.Duration // age at which a waiting item is dropped; 0: never
	Fill   int           // goroutines that create items in advance; default 1
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
	count   int   // ready and pending items
	weight  int64 // their weight
	closed  bool
}

// bucket is the items of one key.
type bucket[K comparable, V any] struct {
	key    K
	ready  []entry[V] // oldest first
	weight int64      // of each item
	making int
	want   int
	low    int // fewest ready items since the last tick
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

// take returns a ready item and records the request. It reports whether to create others at once.
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

// Flush drops the ready items of key, which have become useless.
func (p *Pool[K, V]) Flush(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.buckets[key]; s != nil {
		p.drop(s, len(s.ready))
	}
}

// drop drops n ready items of s, oldest first. The caller holds the lock.
func (p *Pool[K, V]) drop(s *bucket[K, V], n int) {
	for _, t := range s.ready[:n] {
		p.Drop(t.value)
	}
	s.ready = append(s.ready[:0:0], s.ready[n:]...)
	s.low = min(s.low, len(s.ready))
	p.discount(s, n)
}

// discount removes n items of s from the totals. The caller holds the lock.
func (p *Pool[K, V]) discount(s *bucket[K, V], n int) {
	p.count -= n
	p.weight -= int64(n) * s.weight
}

// full reports whether another item of s would exceed a limit. The caller holds the lock.
func (p *Pool[K, V]) full(s *bucket[K, V]) bool {
	return p.count >= p.Most || p.Memory > 0 && p.weight+s.weight > p.Memory
}

// nudge wakes the filling goroutines.
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

// fillOne creates one item for a bucket that needs one. It reports whether to continue.
func (p *Pool[K, V]) fillOne() bool {
	s := p.wanting()
	if s == nil {
		return false
	}
	p.nudge() // there may be work for another goroutine
	begin := time.Now()
	v, err := p.make(s.key)
	p.meter.made(p.ctx, time.Since(begin), err)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.making--
	switch {
	case err != nil:
		p.discount(s, 1)
		s.want = 0 // the next request retries and gets the error
		if p.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			slog.WarnContext(p.ctx, "warm pool not filled", "pool", p.Name, "key", s.key, "error", err)
		}
	case p.closed:
		p.discount(s, 1)
		p.Drop(v)
	default:
		s.ready = append(s.ready, entry[V]{v, time.Now()})
	}
	return err == nil && !p.closed
}

// make creates an item in advance.
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

// wanting returns a bucket to fill, and counts the item that the caller is about to create.
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

// extremes returns the bucket to fill first, if any, and the one to take from first. The caller
// holds the lock.
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

// expireLoop drops unused items periodically.
func (p *Pool[K, V]) expireLoop() {
	tick := time.NewTicker(max(p.Idle/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case now := <-tick.C:
			p.expire(now)
			p.nudge() // dead or old items may need replacements
		}
	}
}

// expire drops the items of idle keys and dead items, and lowers the number for keys with unused
// items.
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
		if s.low > 1 { // keep one of the unneeded ones
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

// levels returns the numbers of ready and pending items.
func (p *Pool[K, V]) levels() (ready, making int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.buckets {
		ready += int64(len(s.ready))
		making += int64(s.making)
	}
	return ready, making
}

// Ready returns the number of ready items of key.
func (p *Pool[K, V]) Ready(key K) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.buckets[key]; s != nil {
		return len(s.ready)
	}
	return 0
}

// Close drops everything and waits for pending items.
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
