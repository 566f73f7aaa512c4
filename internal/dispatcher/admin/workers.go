package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Cordon keeps a worker from taking jobs. Its running jobs continue.
func (a *Admin) Cordon(ctx context.Context, who Actor, worker string, q api.OperatorRequest) (*store.Action, error) {
	return a.onWorker(ctx, who, "cordon", worker, q.Reason, func(done *store.Action) error { return a.Store.Cordon(ctx, done, worker) })
}

// Uncordon ends a cordon.
func (a *Admin) Uncordon(ctx context.Context, who Actor, worker string, q api.OperatorRequest) (*store.Action, error) {
	return a.onWorker(ctx, who, "uncordon", worker, q.Reason, func(done *store.Action) error { return a.Store.Uncordon(ctx, done, worker) })
}

// Quarantine keeps a worker from taking jobs for a time; afterwards it tries one at a time.
func (a *Admin) Quarantine(ctx context.Context, who Actor, worker string, q api.QuarantineRequest) (*store.Action, error) {
	d := q.For.D()
	if d < time.Second || d > maxQuarantine {
		return nil, job.Invalid("for", "must be 1s to %v, and is %v", maxQuarantine, d)
	}
	return a.onWorker(ctx, who, "quarantine", worker, q.Reason, func(done *store.Action) error { return a.Store.Confine(ctx, done, worker, d) })
}

// Unquarantine ends a quarantine by an operator or a dispatcher.
func (a *Admin) Unquarantine(ctx context.Context, who Actor, worker string, q api.OperatorRequest) (*store.Action, error) {
	return a.onWorker(ctx, who, "unquarantine", worker, q.Reason, func(done *store.Action) error { return a.Store.Absolve(ctx, done, worker) })
}

func (a *Admin) onWorker(ctx context.Context, who Actor, action, worker, reason string, do func(*store.Action) error) (*store.Action, error) {
	done, err := a.act(ctx, who, action, worker, reason, do)
	if err == nil {
		a.changed(ctx)
	}
	return done, err
}

// Worker returns a worker with its running jobs and sessions, or job.ErrNotFound.
func (a *Admin) Worker(ctx context.Context, id string) (api.WorkerStatus, error) {
	ws, err := a.Store.Workers(ctx, 0)
	if err != nil {
		return api.WorkerStatus{}, fmt.Errorf("list workers: %w", err)
	}
	for _, w := range ws {
		if w.ID == id {
			load, err := a.Store.Load(ctx, id)
			return api.WorkerStatus{Worker: w, Running: load.Running, Sessions: load.Sessions, Jobs: append([]store.WorkerJob{}, load.Jobs...),
				LiveSessions: append([]store.WorkerSession{}, load.LiveSessions...)}, err
		}
	}
	return api.WorkerStatus{}, fmt.Errorf("%w: worker %.80q", job.ErrNotFound, id)
}
