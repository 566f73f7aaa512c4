package fleet

import (
	"context"
	"time"
)

// How long a worker is kept from taking jobs, the first time and at most.
const (
	firstQuarantine   = 30 * time.Second
	longestQuarantine = 10 * time.Minute
)

// quarantine looks after the workers until ctx ends: one whose failures stand out
// takes no jobs for a while, and then tries a few at a time. Half of a pool always
// goes on.
func (f *Fleet) quarantine(ctx context.Context) {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		workers, resting, cordoned := f.ByPool()
		for pool, ids := range workers {
			for id, why := range f.health.sick(ids) {
				if 2*(resting[pool]+cordoned[pool]+1) > len(ids) {
					break
				}
				if f.sendToRest(ctx, id, why) {
					resting[pool]++
				}
			}
		}
	}
}

// sendToRest reports whether the worker was put into quarantine now.
func (f *Fleet) sendToRest(ctx context.Context, worker, why string) bool {
	put, err := f.store.Quarantine(ctx, worker, why, firstQuarantine, longestQuarantine)
	if err != nil {
		f.log.WarnContext(ctx, "worker not quarantined; retrying", "worker", worker, "error", err)
		return false
	}
	f.health.forget(worker)
	if !put {
		return false // another dispatcher did
	}
	f.log.WarnContext(ctx, "worker quarantined", "worker", worker, "why", why)
	if err := f.Refresh(ctx); err != nil {
		f.log.WarnContext(ctx, "worker registry not refreshed", "error", err)
	}
	return true
}
