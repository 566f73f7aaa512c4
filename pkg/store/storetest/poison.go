package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// testPoison checks that a job that kills its workers is given up. Jobs that ran beside it are not.
func testPoison(t *testing.T, open Open) {
	// claim claims all queued jobs for a worker whose leases last ttl.
	claim := func(f *fixture, worker string, ttl time.Duration, refs ...store.Ref) map[job.ID]store.Claimed {
		f.Helper()
		of := map[job.ID]store.Claimed{}
		for _, c := range f.claimAs(worker, ttl, refs...) {
			of[c.Job] = c
		}
		return of
	}
	scheduled := func(f *fixture) map[job.ID]store.Ref {
		of := map[job.ID]store.Ref{}
		for _, d := range f.schedule(100) {
			of[d.Job] = d.Ref
		}
		return of
	}
	lose := func(f *fixture, n int64) {
		f.Helper()
		f.eventually("the leases' end", func() bool { n -= f.reap().LeasesExpired; return n <= 0 })
	}

	given := func(f *fixture, id job.ID) {
		f.Helper()
		f.eventually("the end of poison", func() bool { f.reap(); return f.state(id) == job.Finished })
	}

	t.Run("alone in the end", func(t *testing.T) {
		f := newFixture(t, open, Options{PoisonAfter: 3})
		newFleet(f, "w1", "w2").heard()
		jobs := newJobs(3)
		f.submit(jobs...)
		p, a, b := jobs[0].ID, jobs[1].ID, jobs[2].ID
		refs := scheduled(f)
		claim(f, "w1", 0, refs[p], refs[a], refs[b])
		lose(f, 3)
		refs = scheduled(f)
		claim(f, "w1", 0, refs[p], refs[a])
		f.finishAs("w2", leaseOf(claim(f, "w2", ttl, refs[b])[b]), job.Succeeded)
		lose(f, 2)

		refs = scheduled(f)
		poison := claim(f, "w1", ttl, refs[p])[p]
		if c := claim(f, "w1", ttl, refs[a])[a]; c.Lease != 0 || !c.Later {
			t.Errorf("a suspect beside another one: %+v", c)
		}
		other := claim(f, "w2", ttl, refs[a])[a]
		if other.Lease == 0 {
			t.Fatal("another worker cannot take it")
		}
		_, _, err := f.Heartbeat(t.Context(), 0, []store.Held{{LeaseRef: leaseOf(poison), Worker: "w1"}})
		f.must(err)
		lose(f, 1)
		given(f, p)
		if r := f.result(p); r.Outcome != job.Lost || !strings.Contains(r.Message, "poison, its start was the end of 3 workers") || len(r.Attempts) != 3 {
			t.Errorf("%+v", r)
		}
		f.finishAs("w2", leaseOf(other), job.Succeeded)
		if c := claim(f, "w1", ttl, refs[a])[a]; c.Lease != 0 || c.Later {
			t.Errorf("a job that is over: %+v", c)
		}
	})
	t.Run("claimed together, one runs", func(t *testing.T) {
		f := newFixture(t, open, Options{PoisonAfter: 2})
		newFleet(f, "w1", "w2").heard()
		jobs := newJobs(3)
		f.submit(jobs...)
		all := func() []store.Ref {
			refs := scheduled(f)
			return []store.Ref{refs[jobs[0].ID], refs[jobs[1].ID], refs[jobs[2].ID]}
		}
		claim(f, "w1", 0, all()...)
		lose(f, 3)
		var running, later int
		for _, c := range claim(f, "w1", ttl, all()...) {
			if c.Lease != 0 {
				running++
			} else if c.Later {
				later++
			}
		}
		if running != 1 || later != 2 {
			t.Fatalf("%d run, %d are for later", running, later)
		}
	})
	t.Run("beside a worse one", func(t *testing.T) {
		f := newFixture(t, open, Options{PoisonAfter: 2})
		newFleet(f, "w1", "w2").heard()
		poison, innocent := newJob("poison"), newJob("innocent")
		f.submit(poison)
		claim(f, "w1", 0, scheduled(f)[poison.ID])
		lose(f, 1)
		f.submit(innocent)
		refs := scheduled(f)
		claim(f, "w1", 0, refs[poison.ID], refs[innocent.ID])
		lose(f, 2)
		given(f, poison.ID)
		claim(f, "w1", 0, scheduled(f)[innocent.ID])
		lose(f, 1)
		f.wantState(innocent.ID, job.Queued) // the first without another suspect
	})
}
