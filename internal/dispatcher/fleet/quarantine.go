package fleet

import (
	"context"
	"time"
)

// Duration of a worker's first quarantine, and of the longest.
const (
	firstQuarantine   = 30 * time.Second
	longestQuarantine = 10 * time.Minute
)

// quarantine puts workers whose failures stand out into quarantine, until ctx ends. It leaves at least half of each
// pool in service.
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

// sendToRest quarantines a worker and reports whether this call did. It logs failures; the next round retries.
func (f *Fleet) sendToRest(ctx context.Context, worker, why string) bool {
	put, err := f.store.Quarantine(ctx, worker, why, firstQuarantine, longestQuarantine)
	if err != nil {
		f.log.WarnContext(ctx, "worker not quarantined; retrying", "worker", worker, "error", err)
		return false
	}
	f.health.forget(worker)
	if !put {
		return false // another dispatcher was first
	}
	f.log.WarnContext(ctx, "worker quarantined", "worker", worker, "why", why)
	if err := f.Refresh(ctx); err != nil {
		f.log.WarnContext(ctx, "worker registry not refreshed", "error", err)
	}
	return true
}
