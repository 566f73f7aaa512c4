package dispatcher

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/assay-run/assay/pkg/job"
)

// bulk turns many small calls into few large ones without ever waiting for
// company: while one large call is under way, the next ones gather. An idle
// system therefore answers in one round trip, and a busy one amortises it.
type bulk[In, Out any] struct {
	call  func(context.Context, []In) ([]Out, error) // one Out for each In, in order
	max   int                                        // most Ins of one call, unless one caller brings more
	lanes int                                        // calls under way at once
	queue chan *pending[In, Out]
}

type pending[In, Out any] struct {
	ctx  context.Context // of whoever waits
	in   []In
	out  []Out
	err  error
	done chan struct{}
}

func newBulk[In, Out any](limit, lanes int, call func(context.Context, []In) ([]Out, error)) *bulk[In, Out] {
	return &bulk[In, Out]{call: call, max: limit, lanes: lanes, queue: make(chan *pending[In, Out], 1024)}
}

// do adds in to a large call and returns its part of the answer. When ctx ends
// first, what became of in is unknown.
func (b *bulk[In, Out]) do(ctx context.Context, in []In) ([]Out, error) {
	if len(in) == 0 {
		return nil, nil
	}
	p := &pending[In, Out]{ctx: ctx, in: in, done: make(chan struct{})}
	select {
	case b.queue <- p:
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
		lanes.Go(func() { b.lane(ctx) })
	}
	lanes.Wait()
}

func (b *bulk[In, Out]) lane(ctx context.Context) {
	for {
		select {
		case p := <-b.queue:
			b.flush(ctx, b.gather(p))
		case <-ctx.Done():
			return
		}
	}
}

// gather takes what is waiting, up to max.
func (b *bulk[In, Out]) gather(first *pending[In, Out]) []*pending[In, Out] {
	ps, n := []*pending[In, Out]{first}, len(first.in)
	for n < b.max {
		select {
		case p := <-b.queue:
			ps, n = append(ps, p), n+len(p.in)
		default:
			return ps
		}
	}
	return ps
}

func (b *bulk[In, Out]) flush(ctx context.Context, ps []*pending[In, Out]) {
	// Nobody waits for these any more, and they may have been said again since:
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
