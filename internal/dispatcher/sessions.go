package dispatcher

import (
	"context"
	"encoding/json"

	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/pkg/queue"
)

// listenSessions records how sessions end, as their workers tell it. News that
// is lost is found out by whoever uses the session next, or by reapSessions.
func (d *Dispatcher) listenSessions(ctx context.Context) error {
	return d.queue.OnTold(ctx, queue.TopicEnded, func(worker string, payload []byte) {
		var e queue.SessionEnd
		if err := json.Unmarshal(payload, &e); err != nil {
			d.log.WarnContext(ctx, "news of a session dropped", "error", err)
			return
		}
		if _, err := d.store.EndSession(ctx, e.Session, worker, e.Outcome, e.Message); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "end of a session not recorded", "session", e.Session, "error", err)
		}
	})
}

func (r *reaper) reapSessions(ctx context.Context) {
	n, err := r.store.ReapSessions(ctx, fleet.Connected)
	switch {
	case err != nil && ctx.Err() == nil:
		r.log.WarnContext(ctx, "sessions not reaped", "error", err)
	case n > 0:
		r.log.InfoContext(ctx, "sessions lost with their workers", "sessions", n)
	}
}
