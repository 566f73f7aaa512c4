package dispatcher_test

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/store"
)

// TestFollowersHintsSuffice: what is queued, claimed and ended at a dispatcher that
// does not lead is scheduled without waiting for the clock.
func TestFollowersHintsSuffice(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.ScheduleEvery, cfg.RepublishAfter, cfg.MinWindow = never, never, 2
	if err := f.store.PutTenant(t.Context(), store.Tenant{Name: tenant, Weight: 1, MaxRunning: 2}); err != nil {
		t.Fatal(err)
	}
	f.start(cfg, nil, nil) // leads, since it was first
	follower := f.start(cfg, nil, nil)
	w := f.work("w1", 4, succeed)
	for range 3 {
		batch, ids := f.submit(30)
		follower.Wake()
		f.recordedOnce(batch, ids)
	}
	if w.total() != 90 {
		t.Errorf("%d runs of 90 jobs", w.total())
	}
}

// TestLeaderReplaced: another dispatcher schedules and reaps once the leader has
// gone, and once one that went without a word is overdue.
func TestLeaderReplaced(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	if term, err := f.store.Lead(t.Context(), "dispatch", "one that is gone", 2*time.Second); err != nil || term != 1 {
		t.Fatalf("term %d, %v", term, err)
	}
	first := f.start(quick, nil, nil)
	second := f.start(quick, nil, nil)
	f.work("w1", 4, succeed)
	batch, ids := f.submit(10)
	second.Wake()
	f.recordedOnce(batch, ids)
	first.stop()
	batch, ids = f.submit(10)
	second.Wake()
	f.recordedOnce(batch, ids)
}
