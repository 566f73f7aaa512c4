package dispatcher_test

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestCordon checks that no dispatcher gives a cordoned worker a job, and that it gets jobs again afterwards. A
// cordon may exceed half of the pool.
func TestCordon(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.RegistryEvery = never // only broadcasts count
	one, two := f.start(cfg, nil, nil), f.start(cfg, nil, nil)
	w := f.work("w", 4, succeed)
	batch, ids := f.submit(8)
	one.Wake()
	f.recordedOnce(batch, ids)
	if w.total() != 8 {
		t.Fatalf("it ran %d of 8 jobs", w.total())
	}

	act := func(action string) *store.Action {
		return &store.Action{ID: job.NewID(), Actor: "ops", Action: action, Subject: "w"}
	}
	info := control.WorkerInfo{ID: "w", Pool: pool, Slots: 4, StartedAt: started}
	all := func(what string, cordoned bool) {
		t.Helper()
		f.until(what, func() bool {
			for range 20 { // each is answered by one dispatcher
				beat, err := w.q.Heartbeat(t.Context(), control.HeartbeatRequest{Worker: info})
				if err != nil || beat.Cordoned != cordoned || (beat.Rest > 0) != cordoned {
					return false
				}
			}
			return true
		})
	}
	if err := f.store.Cordon(t.Context(), act("cordon"), "w"); err != nil {
		t.Fatal(err)
	}
	one.FleetChanged(t.Context())
	all("both dispatchers know of the cordon", true)
	claim, err := w.q.Claim(t.Context(), control.ClaimRequest{Worker: "w", Refs: []store.Ref{{Job: job.NewID(), Generation: 1}}})
	if err != nil || !claim.Cordoned || claim.Rest.D() < time.Second || len(claim.Claimed) != 0 {
		t.Errorf("its claim is answered %+v, %v", claim, err)
	}
	other := f.work("other", 4, succeed)
	batch, ids = f.submit(20)
	two.Wake()
	f.recordedOnce(batch, ids)
	if w.total() != 8 || other.total() != 20 {
		t.Errorf("the cordoned one ran %d jobs, want 8; the other one %d", w.total(), other.total())
	}
	other.stop()

	if err := f.store.Uncordon(t.Context(), act("uncordon"), "w"); err != nil {
		t.Fatal(err)
	}
	two.FleetChanged(t.Context())
	all("both dispatchers know of the end", false)
	batch, ids = f.submit(8)
	one.Wake()
	f.recordedOnce(batch, ids)
	if w.total() != 16 {
		t.Errorf("it ran %d jobs, want 16", w.total())
	}
}
