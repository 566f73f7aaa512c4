package session

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/store"
)

// Teller passes on what workers say to all who listen; control.Bus is one.
type Teller interface {
	OnTold(ctx context.Context, topic string, f func(worker string, payload []byte)) error
}

// Ends writes down how sessions end: as their workers tell it, as whoever uses one finds out,
// or when its worker has been silent for too long. The first of these counts.
type Ends struct {
	Store store.Sessions
	Log   *slog.Logger
}

// record writes an end down. To the tenant, if one asks, it returns the end that counts.
func (e *Ends) record(ctx context.Context, worker, tenant string, end control.SessionEnd) (*control.SessionEnd, error) {
	first, err := e.Store.EndSession(ctx, end.Session, worker, end.Outcome, end.Message)
	if err != nil {
		return &end, fmt.Errorf("record the end of a session: %w", err)
	}
	if first || tenant == "" {
		return &end, nil
	}
	if v, err := e.Store.Session(ctx, tenant, end.Session); err == nil {
		end.Outcome, end.Message = v.Outcome, v.Message
	}
	return &end, nil
}

// Listen records how sessions end, as their workers tell it, until ctx ends. News that
// is lost is found out by whoever uses the session next, or by Reap.
func (e *Ends) Listen(ctx context.Context, workers Teller) error {
	return workers.OnTold(ctx, control.TopicEnded, func(worker string, payload []byte) {
		var end control.SessionEnd
		if err := json.Unmarshal(payload, &end); err != nil {
			e.Log.WarnContext(ctx, "news of a session dropped", "error", err)
			return
		}
		if _, err := e.record(ctx, worker, "", end); err != nil && ctx.Err() == nil {
			e.Log.WarnContext(ctx, "end of a session not recorded", "session", end.Session, "error", err)
		}
	})
}

// Reap ends the sessions whose workers are not connected any more.
func (e *Ends) Reap(ctx context.Context) {
	n, err := e.Store.ReapSessions(ctx, fleet.Connected)
	switch {
	case err != nil && ctx.Err() == nil:
		e.Log.WarnContext(ctx, "sessions not reaped", "error", err)
	case n > 0:
		e.Log.InfoContext(ctx, "sessions lost with their workers", "sessions", n)
	}
}
