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

// A resting batcher gathers items. A waiting claim holds a slot, a waiting result does not. Pulls
// rest as long as claims: one pull results in one claim.
const (
	pullRest   = 20 * time.Millisecond
	claimRest  = 20 * time.Millisecond
	finishRest = 100 * time.Millisecond
	restStep   = 2 * time.Millisecond // how often a resting batcher checks whether to go on resting
)

// A batcher collects items and flushes them in batches. A batch has the items that arrived during
// the previous flush and the rest after it. A single item is flushed at once, a flood in few large
// batches.
type batcher[T any] struct {
	in       chan T
	flush    func(context.Context, []T)
	max      int
	maxBytes int
	size     func(T) int // nil: bytes do not count

	// rest returns the least time between flushes, given the latest item. A statement of many rows
	// costs hardly more than one of a single row. nil: the batcher never rests.
	rest func(T) time.Duration

	turn chan struct{} // capacity 1: its holder gathers and owns the fields below
	held *T            // first item of the next batch
	last time.Time     // time of the last flush
}

func newBatcher[T any](flush func(context.Context, []T), limit, maxBytes int, size func(T) int) *batcher[T] {
	return &batcher[T]{in: make(chan T, limit), flush: flush, max: limit, maxBytes: maxBytes, size: size, turn: make(chan struct{}, 1)}
}

// add queues an item. It blocks while the receiver is behind.
func (b *batcher[T]) add(item T) { b.in <- item }

// close makes run return after the last item is flushed.
func (b *batcher[T]) close() { close(b.in) }

// run flushes batches, with ctx, until close. Several may run at once.
func (b *batcher[T]) run(ctx context.Context) {
	for {
		batch := b.gather()
		if len(batch) == 0 {
			return
		}
		b.flush(ctx, batch)
	}
}

// gather waits for an item and returns it with the other items that are ready. It returns none
// after close.
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

// next returns the next item of a batch. It waits for the first item, and for others while the
// batcher rests.
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

// occupied reports whether the host is busy enough that messages may be gathered for a moment.
func (w *Worker) occupied() bool { return w.underway.Load() >= occupiedBy }

var occupiedBy = 2 * int64(goruntime.NumCPU())

// gatherRoom keeps the pulls of an occupied worker pullRest apart. Its slots become free one by
// one, so one pull requests several.
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

// finishRest does not delay the results of single jobs: a client may wait for them.
func (w *Worker) finishRest(f finishing) time.Duration {
	if w.occupied() && f.finish.BatchID != "" {
		return finishRest
	}
	return 0
}
