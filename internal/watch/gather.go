// Package watch is how those who watch batches read them: many at once, and as signs of
// life of their clients.
package watch

import (
	"context"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/share"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// gatherPerSecond is how many questions there are in a second at most; as many may
	// be asked without a pause. A reader who is alone never waits for that (calmPeriod).
	gatherPerSecond = 100
	// gatherMost is about how many things one question is.
	gatherMost = 500
	// gatherFor is how long one may take.
	gatherFor = 15 * time.Second
)

// gather answers those who ask how things are, again and again: one question at a time,
// for all who came while the one before was under way or not due yet. An answer is never
// from before it was asked for, so nobody sees the past; a thousand who watch the same
// thing, or as many things, cost one question.
type gather[V any] struct {
	read func(ctx context.Context, ids []job.ID) (map[job.ID]V, error)
	pace share.Pace

	turn chan struct{} // full: a question is under way

	mu   sync.Mutex
	next *round[V]
}

func newGather[V any](read func(ctx context.Context, ids []job.ID) (map[job.ID]V, error)) *gather[V] {
	return &gather[V]{read: read, turn: make(chan struct{}, 1)}
}

// round is one question, and those who wait for its answer.
type round[V any] struct {
	asked map[job.ID]bool
	done  chan struct{}
	found map[job.ID]V
	err   error
}

// get returns how the thing is, false if there is none.
func (g *gather[V]) get(ctx context.Context, id job.ID) (v V, found bool, err error) {
	r := g.join(id)
	select {
	case <-r.done:
		v, found = r.found[id]
		return v, found, r.err
	case <-ctx.Done():
		return v, false, ctx.Err()
	}
}

// join adds to the round that gathers, or begins one.
func (g *gather[V]) join(id job.ID) *round[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil || len(g.next.asked) >= gatherMost && !g.next.asked[id] {
		g.next = &round[V]{asked: map[job.ID]bool{}, done: make(chan struct{})}
		go g.ask(g.next)
	}
	g.next.asked[id] = true
	return g.next
}

func (g *gather[V]) ask(r *round[V]) {
	defer close(r.done)
	g.turn <- struct{}{}
	defer func() { <-g.turn }()
	for early := g.pace.Take(1, gatherPerSecond); early > 0; early = g.pace.Take(1, gatherPerSecond) {
		time.Sleep(early)
	}
	g.mu.Lock()
	if g.next == r {
		g.next = nil // who comes from now on wants a later answer
	}
	ids := make([]job.ID, 0, len(r.asked))
	for id := range r.asked {
		ids = append(ids, id)
	}
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), gatherFor)
	defer cancel()
	r.found, r.err = g.read(ctx, ids)
}
