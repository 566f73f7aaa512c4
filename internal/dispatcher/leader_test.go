package dispatcher_test

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/store"
)

// TestFollowersHintsSuffice checks that jobs queued, claimed and ended at a follower are scheduled without a wait for
// the clock.
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

// TestLeaderReplaced checks that another dispatcher schedules and reaps after the leader has resigned, and after a
// leader was killed and its leadership has expired.
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
