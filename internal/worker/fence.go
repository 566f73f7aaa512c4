package worker

import (
	"context"
	"log/slog"
	"time"
)

// fenceTick is the interval between checks of the leases, and so the longest delay of a kill.
const fenceTick = 250 * time.Millisecond

// fences ends each attempt whose lease may soon be over, by this machine's monotonic clock. It has
// its own loop, so nothing that blocks heartbeats blocks it. It returns when ctx ends.
func (w *Worker) fences(ctx context.Context) {
	tick := time.NewTicker(fenceTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		limit := time.Now().Add(w.margin())
		if n := w.leases.endIf(errFenced, func(l *lease) bool { return l.until.Before(limit) }); n > 0 {
			w.metrics.fenced(ctx, n)
			slog.WarnContext(ctx, "self-fenced", "attempts", n, "margin", w.margin())
		}
	}
}
