package dispatcher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/assay-run/assay/pkg/job"
)

// bulk combines many small calls into few large ones and never waits for more callers: while one large call runs, the
// next ones gather. So an idle system answers in one round trip, and a busy one amortises it.
//
// A call is bounded in rows and, with size, in bytes. The input of one caller is never split. Inputs above maxBytes
// have their own lane, one caller at a time, so that others do not wait for them.
type bulk[In, Out any] struct {
	call  func(context.Context, []In) ([]Out, error) // returns one Out for each In, in order
	max   int                                        // rows per call; a single caller may exceed it
	lanes int                                        // concurrent calls
	queue chan *pending[In, Out]
	depth atomic.Int64 // unanswered calls

	size     func(In) int // in bytes; nil: no bound in bytes
	maxBytes int          // bytes per call; a single caller may exceed it
	large    chan *pending[In, Out]
}

type pending[In, Out any] struct {
	ctx  context.Context // of the caller
	in   []In
	size int
	out  []Out
	err  error
	done chan struct{}
}

func newBulk[In, Out any](limit, lanes int, call func(context.Context, []In) ([]Out, error)) *bulk[In, Out] {
	return &bulk[In, Out]{call: call, max: limit, lanes: lanes, queue: make(chan *pending[In, Out], 1024)}
}

// bounded limits the calls of b to maxBytes and returns b.
func (b *bulk[In, Out]) bounded(maxBytes int, size func(In) int) *bulk[In, Out] {
	b.maxBytes, b.size = maxBytes, size
	b.large = make(chan *pending[In, Out])
	return b
}

// queueOf sets the size of p and returns the queue it belongs to.
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

// do adds in to a large call and returns its part of the answer. If ctx ends first, it returns ctx.Err(), and the
// call may have taken effect.
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

// run makes calls until ctx ends.
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

// lane makes calls from a queue, one after the other, until ctx ends.
func (b *bulk[In, Out]) lane(ctx context.Context, queue <-chan *pending[In, Out]) {
	var next *pending[In, Out] // did not fit into the previous call
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

// gather takes waiting inputs up to max, and returns separately the input that did not fit.
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
	// Drop inputs whose callers are gone: they may have been sent again, and would prolong the recovery from an
	// outage.
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
		// The invalid input of one caller must not fail the others.
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
