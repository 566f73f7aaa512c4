package worker

import (
	"context"
	"log/slog"
	"time"
)

// fenceTick is how often leases are looked at, and so how much later than its
// margin a sandbox may be killed.
const fenceTick = 250 * time.Millisecond

// fences ends every attempt whose lease may be over soon, by this machine's
// monotonic clock and in a loop of its own: whatever blocks heartbeats must not
// block this. It goes on until ctx ends.
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
