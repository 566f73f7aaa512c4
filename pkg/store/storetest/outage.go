package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// testOutages checks that jobs are not blamed for leases lost while no heartbeats arrived, however often that
// happens.
func testOutages(t *testing.T, open Open) {
	f := newFixture(t, open, Options{PoisonAfter: 3})
	fleet := newFleet(f, "w1", "w2")
	jobs := newJobs(4)
	f.submit(jobs...)
	for outage := range 4 {
		fleet.heard()
		var held []store.LeaseRef
		f.eventually("all run", func() bool {
			for i, d := range f.schedule(100) {
				for _, c := range f.claimAs(fmt.Sprintf("w%d", i%2+1), 0, d.Ref) {
					held = append(held, leaseOf(c))
				}
			}
			return len(held) == len(jobs)
		})
		lost := 0
		f.eventually("all leases end", func() bool {
			st := f.reap()
			lost += int(st.LeasesExpired)
			if st.JobsLost > 0 {
				f.Fatalf("outage %d: %d innocent jobs were given up", outage+1, st.JobsLost)
			}
			return lost == len(jobs)
		})
	}
	for _, j := range jobs {
		f.wantState(j.ID, job.Queued)
	}
}

// testIncarnations checks that a restarted worker counts as a new worker.
func testIncarnations(t *testing.T, open Open) {
	restart := func(fl *fleet, name string) (now store.Incarnation) {
		for i := range fl.ws {
			if w := &fl.ws[i]; w.ID == name {
				w.StartedAt = w.StartedAt.Add(time.Second)
				now = store.IncarnationOf(w.StartedAt)
			}
		}
		return now
	}
	claim := func(fl *fleet, name string, refs ...store.Ref) (got []store.Claimed) {
		fl.Helper()
		var claims []store.Claim
		for _, w := range fl.ws {
			for _, r := range refs {
				if w.ID == name {
					claims = append(claims, store.Claim{Ref: r, Worker: name, Since: store.IncarnationOf(w.StartedAt)})
				}
			}
		}
		got, err := fl.Claim(fl.Context(), ttl, claims)
		fl.must(err)
		return got
	}

	t.Run("leases are handed back at once", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		fl := newFleet(f, "w1", "w2")
		fl.heard()
		f.submit(newJobs(3)...)
		ds := f.schedule(10)
		old := claim(fl, "w1", ds[0].Ref, ds[1].Ref)
		other := claim(fl, "w2", ds[2].Ref)[0]
		if again := claim(fl, "w1", ds[0].Ref)[0]; again.Lease != old[0].Lease {
			t.Errorf("sent again, the claim yields lease %d, want %d", again.Lease, old[0].Lease)
		}
		restart(fl, "w1")
		if c := claim(fl, "w1", ds[0].Ref)[0]; c.Lease != 0 {
			t.Errorf("the new process has lease %d of the old one", c.Lease)
		}
		if st := f.reap(); st.LeasesExpired != 0 {
			t.Errorf("taken back before anybody was heard: %+v", st)
		}
		fl.heard()
		if st := f.reap(); st.LeasesExpired != 2 {
			t.Errorf("%+v, want the two leases of the old process back", st)
		}
		f.wantState(ds[0].Job, job.Queued)
		f.wantState(ds[2].Job, job.Running)
		for _, d := range f.schedule(10) {
			if c := claim(fl, "w1", d.Ref)[0]; c.Lease <= old[1].Lease {
				t.Errorf("lease %d after %d", c.Lease, old[1].Lease)
			}
		}
		if st := f.reap(); st.LeasesExpired != 0 {
			t.Errorf("taken back from the new process: %+v", st)
		}
		if s := f.finishAs("w2", leaseOf(other), job.Succeeded); s != store.Recorded {
			t.Errorf("the other worker's result is %s", s)
		}
	})
	t.Run("one worker is enough to tell poison", func(t *testing.T) {
		f := newFixture(t, open, Options{PoisonAfter: 3, PoisonWait: time.Hour})
		fl := newFleet(f, "only")
		fl.heard()
		id := newJob("poison")
		f.submit(id)
		for range 3 {
			if c := claim(fl, "only", f.schedule(1)[0].Ref)[0]; c.Lease == 0 {
				t.Fatalf("%+v", c)
			}
			restart(fl, "only")
			fl.heard()
			f.reap()
		}
		if r := f.result(id.ID); r.Outcome != job.Lost || len(r.Attempts) != 3 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("one of two alive is refused", func(t *testing.T) {
		f := newFixture(t, open, Options{PoisonAfter: 2, PoisonWait: time.Hour})
		fl := newFleet(f, "w1", "w2")
		elder := fl.ws[0]
		fl.heard()
		id := newJob("innocent")
		f.submit(id)
		for range 4 { // blamed once, while only the younger process sent heartbeats
			claim(&fleet{f, []store.Worker{elder}}, "w1", f.schedule(1)[0].Ref)
			restart(fl, "w1")
			fl.heard()
			if st := f.reap(); st.LeasesExpired != 1 || st.JobsLost != 0 {
				t.Fatalf("%+v", st)
			}
			f.must(f.PutWorkers(f.Context(), []store.Worker{elder}))
			f.reap()
		}
		f.wantState(id.ID, job.Queued)
		ws, err := f.Workers(f.Context(), 0)
		f.must(err)
		w := ws[0]
		if !w.StartedAt.Equal(fl.ws[0].StartedAt) || w.Rival == nil || !w.Rival.StartedAt.Equal(elder.StartedAt) {
			t.Errorf("%+v, rival %+v", w, w.Rival)
		}
		if ws[1].Rival != nil {
			t.Errorf("%+v", ws[1])
		}
	})
	t.Run("a silent owner loses its name to an older one", func(t *testing.T) { // its clock is behind
		f := newFixture(t, open, Options{})
		fl := newFleet(f, "w1")
		older := fl.ws[0]
		restart(fl, "w1")
		fl.ws[0].Silence = time.Minute
		fl.heard()
		f.must(f.PutWorkers(f.Context(), []store.Worker{older}))
		ws, err := f.Workers(f.Context(), 0)
		f.must(err)
		if !ws[0].StartedAt.Equal(older.StartedAt) || ws[0].Rival != nil {
			t.Errorf("%+v", ws[0])
		}
	})
	t.Run("nobody is blamed where most are silent", func(t *testing.T) {
		f := newFixture(t, open, Options{PoisonAfter: 2})
		fl := newFleet(f, "w1", "w2", "w3", "w4")
		for i := range fl.ws {
			fl.ws[i].Silence = 30 * time.Second
		}
		fl.ws[3].Silence = 0
		fl.heard()
		id := newJob("innocent")
		f.submit(id)
		for range 3 {
			f.claimAs("w1", 0, f.schedule(1)[0].Ref)
			f.eventually("the lease's end", func() bool { return f.reap().LeasesExpired == 1 })
		}
		f.wantState(id.ID, job.Queued)
	})
}

// fleet is a set of workers of one pool that send heartbeats now and then.
type fleet struct {
	*fixture
	ws []store.Worker
}

func newFleet(f *fixture, names ...string) *fleet {
	fl := &fleet{fixture: f}
	for _, n := range names {
		fl.ws = append(fl.ws, store.Worker{ID: n, Pool: pool, Slots: 8, StartedAt: time.Now().Truncate(time.Microsecond)})
	}
	return fl
}

// heard sends a heartbeat of the named workers, or of all without names.
func (f *fleet) heard(names ...string) {
	f.Helper()
	for _, w := range f.ws {
		for _, n := range names {
			if n == w.ID {
				f.must(f.PutWorkers(f.Context(), []store.Worker{w}))
			}
		}
	}
	if len(names) == 0 {
		f.must(f.PutWorkers(f.Context(), f.ws))
	}
}
