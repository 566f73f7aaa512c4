package environment

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// turns limits concurrent builds. A tenant has at most one. Among waiting tenants, the one with the
// oldest last turn goes first. So no tenant can block others with many or long builds.
type turns struct {
	mu      sync.Mutex
	free    int
	busy    map[string]bool
	last    map[string]int // tenant → its last turn, counted in turns
	count   int
	waiting []turnWaiter
}

type turnWaiter struct {
	tenant string
	ready  chan struct{}
}

// turnsKept is the most recorded tenants.
const turnsKept = 10_000

func newTurns(n int) *turns {
	return &turns{free: n, busy: map[string]bool{}, last: map[string]int{}}
}

// take waits for a turn of the tenant; done returns it.
func (t *turns) take(ctx context.Context, tenant string) (done func(), err error) {
	w := turnWaiter{tenant, make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.grant()
	t.mu.Unlock()
	done = sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.free++
		delete(t.busy, tenant)
		t.grant()
	})
	select {
	case <-w.ready:
		return done, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	n := len(t.waiting)
	t.waiting = slices.DeleteFunc(t.waiting, func(o turnWaiter) bool { return o.ready == w.ready })
	granted := len(t.waiting) == n // granted in the meantime
	t.mu.Unlock()
	if granted {
		done()
	}
	return nil, fmt.Errorf("wait to build an environment: %w", context.Cause(ctx))
}

// grant assigns free turns. The caller holds the lock.
func (t *turns) grant() {
	for t.free > 0 {
		next := -1
		for i, w := range t.waiting {
			if !t.busy[w.tenant] && (next < 0 || t.last[w.tenant] < t.last[t.waiting[next].tenant]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		if len(t.last) >= turnsKept {
			clear(t.last)
		}
		t.free--
		t.count++
		t.busy[w.tenant], t.last[w.tenant] = true, t.count
		close(w.ready)
	}
}

// buildTurn is the turn of one build. Package code may be slow or sleep, so it runs in a turn of
// another kind, which does not delay builds of wheels.
type buildTurn struct {
	wheels, sources *turns
	tenant          string
	done            func()
}

// source calls f in a turn for builds from source.
func (b *buildTurn) source(ctx context.Context, f func() error) (err error) {
	b.done()
	done, err := b.sources.take(ctx, b.tenant)
	if err != nil {
		return err
	}
	err = f()
	done()
	if err != nil {
		return err
	}
	again, err := b.wheels.take(ctx, b.tenant)
	if err == nil {
		b.done = again
	}
	return err
}
