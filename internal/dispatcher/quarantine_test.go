package dispatcher_test

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestQuarantine checks that a worker that gives up jobs which another worker finishes is quarantined. Every
// dispatcher then rejects its claims without touching a job. The other workers continue.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.RegistryEvery = 100 * time.Millisecond
	one, two := f.start(cfg, nil, nil), f.start(cfg, nil, nil)
	f.work("good", 4, succeed)
	batch, ids := f.submit(40)
	one.Wake()
	f.recordedOnce(batch, ids)

	bad := f.connect()
	info := control.WorkerInfo{ID: "bad", Pool: pool, Slots: 4, StartedAt: time.Now()}
	failing, finishing := control.ReleaseRequest{Worker: info.ID}, control.FinishRequest{Worker: "good"}
	for range 10 {
		ref := store.LeaseRef{Job: job.NewID(), Lease: 1}
		failing.Releases = append(failing.Releases, store.Release{LeaseRef: ref, Reason: job.ReasonInfra})
		ref.Lease++
		finishing.Finishes = append(finishing.Finishes, store.Finish{LeaseRef: ref, Outcome: job.Succeeded, Result: []byte("{}")})
	}
	f.until("the bad one is ordered to rest", func() bool {
		if _, err := bad.Release(t.Context(), failing); err != nil {
			t.Fatal(err)
		}
		if _, err := bad.Finish(t.Context(), finishing); err != nil {
			t.Fatal(err)
		}
		reply, err := bad.Heartbeat(t.Context(), control.HeartbeatRequest{Worker: info})
		if err != nil {
			t.Fatal(err)
		}
		return reply.Rest > 0
	})
	refused := func() bool {
		reply, err := bad.Claim(t.Context(), control.ClaimRequest{Worker: info.ID, Refs: []store.Ref{{Job: job.NewID(), Generation: 1}}})
		return err == nil && reply.Rest > 0 && len(reply.Claimed) == 0
	}
	f.until("both dispatchers refuse its claims", func() bool {
		for range 20 { // each is answered by one dispatcher
			if !refused() {
				return false
			}
		}
		return true
	})
	ws, err := f.store.Workers(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ws {
		if (w.Quarantine != nil) != (w.ID == "bad") {
			t.Errorf("%s: %+v", w.ID, w.Quarantine)
		}
	}
	batch, ids = f.submit(40)
	two.Wake()
	f.recordedOnce(batch, ids)
}
