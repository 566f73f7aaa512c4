package worker

import "context"

// Limits of one control message. The queue carries about a megabyte.
const (
	maxBatch      = 500
	maxBatchBytes = 512 << 10
)

// A batcher collects items and hands them over in one go: as many as came while
// the previous hand-over was under way. A lone item is handed over at once, a
// flood in few large batches, and there is no timer to tune.
type batcher[T any] struct {
	in       chan T
	flush    func(context.Context, []T)
	max      int
	maxBytes int
	size     func(T) int // nil: bytes do not count
}

func newBatcher[T any](flush func(context.Context, []T), limit, maxBytes int, size func(T) int) *batcher[T] {
	return &batcher[T]{in: make(chan T, limit), flush: flush, max: limit, maxBytes: maxBytes, size: size}
}

// add hands over an item; it blocks while the receiver is behind.
func (b *batcher[T]) add(item T) { b.in <- item }

// close ends run after the last item is handed over.
func (b *batcher[T]) close() { close(b.in) }

// run hands batches over, with ctx, until close. Several may run at once.
func (b *batcher[T]) run(ctx context.Context) {
	item, ok := <-b.in
	for ok {
		batch, bytes := []T{item}, b.bytes(item)
		held := false // item belongs to the next batch
	gather:
		for len(batch) < b.max {
			select {
			case item, ok = <-b.in:
				if !ok {
					break gather
				}
				if bytes += b.bytes(item); b.maxBytes > 0 && bytes > b.maxBytes {
					held = true
					break gather
				}
				batch = append(batch, item)
			default:
				break gather
			}
		}
		b.flush(ctx, batch)
		if ok && !held {
			item, ok = <-b.in
		}
	}
}

func (b *batcher[T]) bytes(item T) int {
	if b.size == nil {
		return 0
	}
	return b.size(item)
}
