package pg

import (
	"context"
	"sync/atomic"
	"time"
)

// share is the part of the connections that calls which can wait may take: those of
// clients, of people and of gauges. The rest is left to what a fleet stops without:
// claims, heartbeats, records, the leader and its looks (see Urgent). They may take any
// connection. The pool gives connections to who asked first, so without a share as many
// slow reads as there are connections would hold all of these up for as long as they take.
type share struct {
	places chan struct{} // nil: no bound

	waited, gaveUp, nanos atomic.Int64
}

// newShare leaves a quarter of the connections, one at least, to what is urgent. With a
// single connection there is nothing to divide.
func newShare(conns int32) *share {
	if conns < 2 {
		return &share{}
	}
	return &share{places: make(chan struct{}, conns-max(conns/4, 1))}
}

type inShare struct{}

// enter waits for a place until ctx ends; leave gives it back. A call within a call that
// has a place has it, too.
func (s *share) enter(ctx context.Context) (inside context.Context, leave func(), err error) {
	if s.places == nil || ctx.Value(inShare{}) != nil {
		return ctx, func() {}, nil
	}
	inside, leave = context.WithValue(ctx, inShare{}, true), func() { <-s.places }
	select {
	case s.places <- struct{}{}:
		return inside, leave, nil
	default:
	}
	defer s.wait()()
	select {
	case s.places <- struct{}{}:
		return inside, leave, nil
	case <-ctx.Done():
		s.gaveUp.Add(1)
		return ctx, nil, ctx.Err()
	}
}

// wait counts a wait until over is called.
func (s *share) wait() (over func()) {
	start := time.Now()
	return func() {
		s.waited.Add(1)
		s.nanos.Add(int64(time.Since(start)))
	}
}
