package environment

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// turns bounds how many builds there are at once. A tenant has one at most, and of
// those who wait the one goes first whose tenant's last turn is longest ago: however
// many builds a tenant asks for, and however long they take, others get theirs.
type turns struct {
	mu      sync.Mutex
	free    int
	busy    map[string]bool
	last    map[string]int // tenant → when it had a turn, counted in turns
	count   int
	waiting []turnWaiter
}

type turnWaiter struct {
	tenant string
	ready  chan struct{}
}

// turnsKept is how many tenants' last turns are remembered.
const turnsKept = 10_000

func newTurns(n int) *turns {
	return &turns{free: n, busy: map[string]bool{}, last: map[string]int{}}
}

// take waits for a turn of tenant's; done gives it back.
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
	granted := len(t.waiting) == n // just now
	t.mu.Unlock()
	if granted {
		done()
	}
	return nil, fmt.Errorf("wait to build an environment: %w", context.Cause(ctx))
}

// grant gives the free turns to those who may have them. It holds the lock.
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

// buildTurn is the turn of one build. Code of a package may take its time, or
// sleep: it runs in a turn of another kind, so that nobody's wheels wait for it.
type buildTurn struct {
	wheels, sources *turns
	tenant          string
	done            func()
}

// source calls f in a turn for packages that are built from source.
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
