package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/pause"
)

// fetchers is the most outstanding requests for deliveries. One waits for the rest of its batch
// while the next takes newly free room.
const fetchers = 3

// pullAll pulls deliveries until ctx ends, then closes the claimer's queue.
func (w *Worker) pullAll(ctx context.Context) {
	var wg sync.WaitGroup
	for range fetchers {
		wg.Go(func() { w.pull(ctx) })
	}
	wg.Wait()
	w.claims.close()
}

// pull requests deliveries, never more than there is room for.
func (w *Worker) pull(ctx context.Context) {
	for {
		w.breaker.Wait(ctx)
		most, turn := w.pressure.Admit(ctx, w.capacity.Busy)
		if w.capacity.WaitForRoom(ctx) != nil {
			return
		}
		w.gatherRoom(ctx)
		n := w.capacity.Hold(min(most, w.breaker.Most()))
		if n == 0 { // another fetch took the room
			continue
		}
		w.pulled.Store(time.Now().UnixNano())
		got, err := w.fetch(ctx, turn, n)
		w.capacity.Free(n - got)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			slog.WarnContext(ctx, "queue unavailable", "error", err)
			pause.For(ctx, time.Second)
		}
	}
}

// fetch passes up to n deliveries to the claimer as they arrive and returns their number. It
// returns when turn is closed.
func (w *Worker) fetch(ctx context.Context, turn <-chan struct{}, n int) (got int, err error) {
	ctx, cancel := untilClosed(ctx, turn)
	defer cancel()
	return w.sources.fetch(ctx, n, w.cfg.FetchWait, w.claims.in)
}
