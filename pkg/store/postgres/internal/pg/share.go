package pg

import (
	"context"
	"sync/atomic"
	"time"
)

// share is the connections for calls that can wait: those of clients, of people and of gauges. The rest is reserved for
// the calls without which a fleet stops: claims, heartbeats, records, the leader and its looks (see Urgent), which may
// take any connection. The pool serves callers in order, so without a share a few slow reads could hold all connections
// and delay every urgent call.
type share struct {
	places chan struct{} // nil: no bound

	waited, gaveUp, nanos atomic.Int64
}

// newShare reserves a quarter of the connections, at least one, for urgent calls. It does not divide a single
// connection.
func newShare(conns int32) *share {
	if conns < 2 {
		return &share{}
	}
	return &share{places: make(chan struct{}, conns-max(conns/4, 1))}
}

type inShare struct{}

// enter waits for a place until ctx ends; leave returns it. A nested call shares the place of the outer one.
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
