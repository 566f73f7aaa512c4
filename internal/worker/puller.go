package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/queue"
)

// fetchers is how many requests for deliveries may be outstanding: one waits
// for the rest of its batch while the next one takes what has become free.
const fetchers = 3

// delivery is one message on its way to a lease. It holds a slot.
type delivery struct {
	msg queue.Message
}

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
		w.breaker.wait(ctx)
		n, err := w.capacity.reserve(ctx, w.breaker.most())
		if err != nil {
			return
		}
		got, err := w.fetch(ctx, n)
		w.capacity.free(n - got)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			slog.WarnContext(ctx, "queue is away", "error", err)
			pause(ctx, time.Second)
		}
	}
}

// fetch passes up to n deliveries on as they arrive and returns how many came.
func (w *Worker) fetch(ctx context.Context, n int) (got int, err error) {
	out := make(chan queue.Message, n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for msg := range out {
			got++
			w.claims.add(delivery{msg})
		}
	}()
	err = w.sources.fetch(ctx, n, w.cfg.FetchWait, out)
	close(out)
	<-done
	return got, err
}
