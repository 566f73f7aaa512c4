package worker

import (
	"context"
	goruntime "runtime"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/queue"
)

// Limits of one control message. The queue carries about a megabyte.
const (
	maxBatch      = 500
	maxBatchBytes = 512 << 10
)

// While a batcher rests, what comes is gathered. A claim holds a slot meanwhile, a
// result does not. Pulls rest for as long as claims: what one of them brings is one claim.
const (
	pullRest   = 20 * time.Millisecond
	claimRest  = 20 * time.Millisecond
	finishRest = 100 * time.Millisecond
	restStep   = 2 * time.Millisecond // how soon it is noticed that there is no more reason to
)

// A batcher collects items and hands them over in one go: as many as came while
// the previous hand-over was under way, and while there is reason to rest after
// it. A lone item is handed over at once, a flood in few large batches.
type batcher[T any] struct {
	in       chan T
	flush    func(context.Context, []T)
	max      int
	maxBytes int
	size     func(T) int // nil: bytes do not count

	// rest says how far hand-overs may be apart, given the latest item, if nobody
	// is hurt by that: a statement of many rows costs hardly more than one of a
	// single row. nil: it never rests.
	rest func(T) time.Duration

	turn chan struct{} // holds one: whoever has it gathers, and owns what follows
	held *T            // the next batch begins with it
	last time.Time     // when one was handed over
}

func newBatcher[T any](flush func(context.Context, []T), limit, maxBytes int, size func(T) int) *batcher[T] {
	return &batcher[T]{in: make(chan T, limit), flush: flush, max: limit, maxBytes: maxBytes, size: size, turn: make(chan struct{}, 1)}
}

// add hands over an item; it blocks while the receiver is behind.
func (b *batcher[T]) add(item T) { b.in <- item }

// close ends run after the last item is handed over.
func (b *batcher[T]) close() { close(b.in) }

// run hands batches over, with ctx, until close. Several may run at once.
func (b *batcher[T]) run(ctx context.Context) {
	for {
		batch := b.gather()
		if len(batch) == 0 {
			return
		}
		b.flush(ctx, batch)
	}
}

// gather waits for an item and returns it with those that are there to go with
// it; none after close.
func (b *batcher[T]) gather() (batch []T) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	bytes := 0
	for len(batch) < b.max {
		item, ok := b.next(batch)
		if !ok {
			break
		}
		if bytes += b.bytes(item); b.maxBytes > 0 && bytes > b.maxBytes && len(batch) > 0 {
			b.held = &item
			break
		}
		batch = append(batch, item)
	}
	b.last = time.Now()
	return batch
}

// next returns the next item of a batch. It waits for the first one, and for
// others as long as there is reason to.
func (b *batcher[T]) next(batch []T) (item T, ok bool) {
	if b.held != nil {
		item, b.held = *b.held, nil
		return item, true
	}
	if len(batch) == 0 {
		item, ok = <-b.in
		return item, ok
	}
	for {
		select {
		case item, ok = <-b.in:
			return item, ok
		default:
		}
		if b.rest == nil {
			return item, false
		}
		left := b.rest(batch[len(batch)-1]) - time.Since(b.last)
		if left <= 0 {
			return item, false
		}
		step := time.NewTimer(min(left, restStep))
		select {
		case item, ok = <-b.in:
			step.Stop()
			return item, ok
		case <-step.C:
		}
	}
}

func (b *batcher[T]) bytes(item T) int {
	if b.size == nil {
		return 0
	}
	return b.size(item)
}

// occupied reports whether the host has enough to do, so that what is sent may
// gather for a moment.
func (w *Worker) occupied() bool { return w.underway.Load() >= occupiedBy }

var occupiedBy = 2 * int64(goruntime.NumCPU())

// gatherRoom keeps the pulls of an occupied worker pullRest apart: its slots come free one
// by one, and one pull then asks for several.
func (w *Worker) gatherRoom(ctx context.Context) {
	if w.occupied() {
		pause.For(ctx, pullRest-time.Since(time.Unix(0, w.pulled.Load())))
	}
}

func (w *Worker) claimRest(queue.Message) time.Duration {
	if w.occupied() {
		return claimRest
	}
	return 0
}

// finishRest keeps nobody waiting who waits for a single job.
func (w *Worker) finishRest(f finishing) time.Duration {
	if w.occupied() && f.finish.BatchID != "" {
		return finishRest
	}
	return 0
}
