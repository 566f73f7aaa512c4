package dispatcher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/assay-run/assay/pkg/job"
)

// bulk turns many small calls into few large ones without ever waiting for
// company: while one large call is under way, the next ones gather. An idle
// system therefore answers in one round trip, and a busy one amortises it.
//
// A call is bounded in rows, and in bytes if there is a size. What one caller brings is
// never cut. Callers that bring more than a call is to have are served one after the
// other in a lane of their own, which the others do not wait for.
type bulk[In, Out any] struct {
	call  func(context.Context, []In) ([]Out, error) // one Out for each In, in order
	max   int                                        // most Ins of one call, unless one caller brings more
	lanes int                                        // calls under way at once
	queue chan *pending[In, Out]
	depth atomic.Int64 // calls that have no answer yet

	size     func(In) int // in bytes; nil: they do not count
	maxBytes int          // most of one call, unless one caller brings more
	large    chan *pending[In, Out]
}

type pending[In, Out any] struct {
	ctx  context.Context // of whoever waits
	in   []In
	size int
	out  []Out
	err  error
	done chan struct{}
}

func newBulk[In, Out any](limit, lanes int, call func(context.Context, []In) ([]Out, error)) *bulk[In, Out] {
	return &bulk[In, Out]{call: call, max: limit, lanes: lanes, queue: make(chan *pending[In, Out], 1024)}
}

// bounded has the calls of b bounded in bytes. It returns b.
func (b *bulk[In, Out]) bounded(maxBytes int, size func(In) int) *bulk[In, Out] {
	b.maxBytes, b.size = maxBytes, size
	b.large = make(chan *pending[In, Out])
	return b
}

// queueOf is where p waits for its call.
func (b *bulk[In, Out]) queueOf(p *pending[In, Out]) chan<- *pending[In, Out] {
	if b.size == nil {
		return b.queue
	}
	for _, in := range p.in {
		p.size += b.size(in)
	}
	if p.size > b.maxBytes {
		return b.large
	}
	return b.queue
}

// do adds in to a large call and returns its part of the answer. When ctx ends
// first, what became of in is unknown.
func (b *bulk[In, Out]) do(ctx context.Context, in []In) ([]Out, error) {
	if len(in) == 0 {
		return nil, nil
	}
	p := &pending[In, Out]{ctx: ctx, in: in, done: make(chan struct{})}
	b.depth.Add(1)
	defer b.depth.Add(-1)
	select {
	case b.queueOf(p) <- p:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-p.done:
		return p.out, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run makes the calls until ctx ends.
func (b *bulk[In, Out]) run(ctx context.Context) {
	var lanes sync.WaitGroup
	for range b.lanes {
		lanes.Go(func() { b.lane(ctx, b.queue) })
	}
	if b.large != nil {
		lanes.Go(func() { b.lane(ctx, b.large) })
	}
	lanes.Wait()
}

// lane makes one call after the other of what waits in queue, until ctx ends.
func (b *bulk[In, Out]) lane(ctx context.Context, queue <-chan *pending[In, Out]) {
	var next *pending[In, Out] // did not fit into the call before
	for {
		if next == nil {
			select {
			case next = <-queue:
			case <-ctx.Done():
				return
			}
		}
		var ps []*pending[In, Out]
		ps, next = b.gather(next, queue)
		b.flush(ctx, ps)
	}
}

// gather takes what is waiting, up to max, and returns what came and did not fit.
func (b *bulk[In, Out]) gather(first *pending[In, Out], queue <-chan *pending[In, Out]) (ps []*pending[In, Out], next *pending[In, Out]) {
	ps, n, bytes := []*pending[In, Out]{first}, len(first.in), first.size
	for n < b.max && (b.size == nil || bytes < b.maxBytes) {
		select {
		case p := <-queue:
			if b.size != nil && bytes+p.size > b.maxBytes {
				return ps, p
			}
			ps, n, bytes = append(ps, p), n+len(p.in), bytes+p.size
		default:
			return ps, nil
		}
	}
	return ps, nil
}

func (b *bulk[In, Out]) flush(ctx context.Context, ps []*pending[In, Out]) {
	// Nobody waits for these any more, and they may have been sent again since:
	// after an outage, doing them too would only prolong it.
	ps = slices.DeleteFunc(ps, func(p *pending[In, Out]) bool { return p.ctx.Err() != nil })
	if len(ps) == 0 {
		return
	}
	all := ps[0].in
	if len(ps) > 1 {
		all = nil
		for _, p := range ps {
			all = append(all, p.in...)
		}
	}
	out, err := b.call(ctx, all)
	if len(ps) > 1 && errors.Is(err, job.ErrInvalid) {
		// One caller's bad input must not fail the others.
		for _, p := range ps {
			b.flush(ctx, []*pending[In, Out]{p})
		}
		return
	}
	for _, p := range ps {
		if p.err = err; err == nil {
			p.out, out = out[:len(p.in)], out[len(p.in):]
		}
		close(p.done)
	}
}
