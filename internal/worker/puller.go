package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/pause"
)

// fetchers is how many requests for deliveries may be outstanding: one waits
// for the rest of its batch while the next one takes what has become free.
const fetchers = 3

// pullAll takes deliveries until ctx ends, then closes the line to the claimer.
func (w *Worker) pullAll(ctx context.Context) {
	var wg sync.WaitGroup
	for range fetchers {
		wg.Go(func() { w.pull(ctx) })
	}
	wg.Wait()
	w.claims.close()
}

// pull asks for deliveries, only ever for as many as there is room for.
func (w *Worker) pull(ctx context.Context) {
	for {
		w.breaker.Wait(ctx)
		most, turn := w.pressure.Admit(ctx, w.capacity.Busy)
		if w.capacity.WaitForRoom(ctx) != nil {
			return
		}
		w.gatherRoom(ctx)
		n := w.capacity.Hold(min(most, w.breaker.Most()))
		if n == 0 { // another fetch was before this one
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

// fetch passes up to n deliveries to the claimer as they arrive and returns how many
// came. It is over when turn is closed.
func (w *Worker) fetch(ctx context.Context, turn <-chan struct{}, n int) (got int, err error) {
	ctx, cancel := untilClosed(ctx, turn)
	defer cancel()
	return w.sources.fetch(ctx, n, w.cfg.FetchWait, w.claims.in)
}
