// Package watch combines the reads of clients that watch batches, and counts them as signs of life
// of those clients.
package watch

import (
	"context"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// gatherPerSecond is the maximum rate of queries, and also the allowed burst. A single reader
	// never waits for it (calmPeriod).
	gatherPerSecond = 100
	// gatherMost is the approximate number of keys in one query.
	gatherMost = 500
	// gatherFor is the timeout of a query.
	gatherFor = 15 * time.Second
)

// gather serves callers that poll the same kind of state. It runs one query at a time, for all
// callers that came while the previous query ran or the next was not due yet. An answer is never
// older than the call. Hundreds of callers cost one query, whether they watch the same thing or
// different things.
type gather[V any] struct {
	read func(ctx context.Context, ids []job.ID) (map[job.ID]V, error)
	pace share.Pace

	turn chan struct{} // full: a query is running

	mu   sync.Mutex
	next *round[V]
}

func newGather[V any](read func(ctx context.Context, ids []job.ID) (map[job.ID]V, error)) *gather[V] {
	return &gather[V]{read: read, turn: make(chan struct{}, 1)}
}

// round is one query and its waiting callers.
type round[V any] struct {
	asked map[job.ID]bool
	done  chan struct{}
	found map[job.ID]V
	err   error
}

// get returns the state of the key, or false if it does not exist.
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

// join adds the caller to the round that is gathering, or begins one.
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
		g.next = nil // later callers need a newer answer
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
