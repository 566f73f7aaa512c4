package dispatcher_test

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestRestartedWorker checks that the first heartbeat of a new process takes back the leases of the process before
// it, long before they expire. Every dispatcher rejects the old process if it lives.
func TestRestartedWorker(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.LeaseTTL, cfg.RegistryEvery = 30*time.Second, 100*time.Millisecond
	one := f.start(cfg, nil, nil)
	f.start(cfg, nil, nil)
	q := f.connect()
	info := control.WorkerInfo{ID: "w", Pool: pool, Slots: 4, StartedAt: time.Now()}
	beat := func(w control.WorkerInfo, ls ...store.LeaseRef) (reply control.HeartbeatReply) {
		t.Helper()
		f.until("a heartbeat is answered", func() (ok bool) {
			var err error
			reply, err = q.Heartbeat(t.Context(), control.HeartbeatRequest{Worker: w, Leases: ls})
			return err == nil
		})
		return reply
	}
	beat(info)
	_, ids := f.submit(1)
	one.Wake()
	claim := func(w control.WorkerInfo, gen job.Generation) (reply control.ClaimReply) {
		t.Helper()
		f.until("a claim is answered", func() (ok bool) {
			var err error
			reply, err = q.Claim(t.Context(), control.ClaimRequest{Worker: w.ID, Since: store.IncarnationOf(w.StartedAt),
				Refs: []store.Ref{{Job: ids[0], Generation: gen}}})
			return err == nil && (reply.Rest > 0 || reply.Claimed[0].Lease != 0)
		})
		return reply
	}
	old := claim(info, 1).Claimed[0]

	next := info
	next.StartedAt = info.StartedAt.Add(time.Millisecond)
	began := time.Now()
	if r := beat(next); r.Refused != "" {
		t.Errorf("the new process is refused: %s", r.Refused)
	}
	now := claim(next, 2).Claimed[0] // it is queued and dispatched again
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("taken back after %v, like any lost lease", took)
	}
	f.until("both dispatchers refuse the old process", func() bool {
		for range 20 { // each is answered by one dispatcher
			if r := beat(info, store.LeaseRef{Job: old.Job, Lease: old.Lease}); r.Refused == "" || r.Rest <= 0 || len(r.Lost) != 1 {
				return false
			}
			if reply := claim(info, 2); reply.Rest <= 0 {
				return false
			}
			if r := beat(next, store.LeaseRef{Job: now.Job, Lease: now.Lease}); r.Refused != "" || len(r.Lost) > 0 {
				t.Fatalf("%+v", r)
			}
		}
		return true
	})
	f.until("the list shows the old process", func() bool {
		beat(info)
		ws, err := f.store.Workers(t.Context(), 0)
		return err == nil && len(ws) == 1 && ws[0].Rival != nil &&
			store.IncarnationOf(ws[0].Rival.StartedAt) == store.IncarnationOf(info.StartedAt)
	})
}
