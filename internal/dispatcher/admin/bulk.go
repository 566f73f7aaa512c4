package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// CordonAll cordons the chosen workers. Their running jobs continue.
func (a *Admin) CordonAll(ctx context.Context, who Actor, q api.WorkersRequest) (*api.WorkersReport, error) {
	return a.onWorkers(ctx, who, "cordon", q, a.Store.Cordon)
}

// UncordonAll ends the cordons of the chosen workers.
func (a *Admin) UncordonAll(ctx context.Context, who Actor, q api.WorkersRequest) (*api.WorkersReport, error) {
	return a.onWorkers(ctx, who, "uncordon", q, a.Store.Uncordon)
}

// onWorkers performs an action on each chosen worker and records each. It stops at the first error; a repeated
// request finds the workers before it unchanged.
func (a *Admin) onWorkers(ctx context.Context, who Actor, action string, q api.WorkersRequest, do func(context.Context, *store.Action, string) error) (*api.WorkersReport, error) {
	if q.Workers.Empty() {
		return nil, job.Invalid("workers", "must name a pool, a version, labels, a state or names of workers")
	}
	if q.Workers.State != "" && !slices.Contains(store.WorkerStates, q.Workers.State) {
		return nil, job.Invalid("workers.state", "%.40q must be one of %v", q.Workers.State, store.WorkerStates)
	}
	if err := checkReason(q.Reason); err != nil { // also in a dry run
		return nil, err
	}
	ws, err := a.Store.Workers(ctx, fleet.Remembered)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	out := &api.WorkersReport{Workers: []string{}, DryRun: q.DryRun}
	found := map[string]bool{}
	for i := range ws {
		if q.Workers.Chooses(&ws[i]) {
			out.Workers = append(out.Workers, ws[i].ID)
			found[ws[i].ID] = true
		}
	}
	for _, name := range q.Workers.Names {
		if !found[name] {
			return nil, fmt.Errorf("%w: worker %.80q is among the selected workers", job.ErrNotFound, name)
		}
	}
	if q.DryRun {
		return out, nil
	}
	defer a.changed(ctx) // also for the workers before an error
	for _, worker := range out.Workers {
		done, err := a.act(ctx, who, action, worker, q.Reason, func(done *store.Action) error { return do(ctx, done, worker) })
		if err != nil {
			return nil, fmt.Errorf("%d of %d workers are done: %w", out.Changed, len(out.Workers), err)
		}
		if done.Outcome == store.ActionDone {
			out.Changed++
		}
	}
	return out, nil
}
