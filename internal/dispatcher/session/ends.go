package session

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// WorkerEvents delivers workers' messages to all subscribers; control.Bus is one.
type WorkerEvents interface {
	OnWorkerEvent(ctx context.Context, topic string, f func(worker string, payload []byte)) error
}

// EndStore is the part of the store that Ends uses.
type EndStore interface {
	EndSession(ctx context.Context, id job.ID, worker string, o job.Outcome, message string) (bool, error)
	Session(ctx context.Context, tenant string, id job.ID) (*job.Session, error)
	ReapSessions(ctx context.Context, silence time.Duration) (int64, error)
}

// Ends records the ends of sessions: from their workers, from failed calls, or after a worker's
// silence. The first of these counts.
type Ends struct {
	Store EndStore
	Log   *slog.Logger
}

// record records an end. With a tenant, it returns the end that counts.
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

// Listen records the ends that workers report, until ctx ends. The next call or Reap discovers lost
// reports.
func (e *Ends) Listen(ctx context.Context, workers WorkerEvents) error {
	return workers.OnWorkerEvent(ctx, control.TopicSessionEnd, func(worker string, payload []byte) {
		var end control.SessionEnd
		if err := json.Unmarshal(payload, &end); err != nil {
			e.Log.WarnContext(ctx, "invalid session event dropped", "error", err)
			return
		}
		if _, err := e.record(ctx, worker, "", end); err != nil && ctx.Err() == nil {
			e.Log.WarnContext(ctx, "session end not recorded", "session", end.Session, "error", err)
		}
	})
}

// Reap ends the sessions of disconnected workers.
func (e *Ends) Reap(ctx context.Context) {
	n, err := e.Store.ReapSessions(ctx, fleet.Connected)
	switch {
	case err != nil && ctx.Err() == nil:
		e.Log.WarnContext(ctx, "sessions not reaped", "error", err)
	case n > 0:
		e.Log.InfoContext(ctx, "sessions lost with their workers", "sessions", n)
	}
}
