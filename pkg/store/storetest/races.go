package storetest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// testCursor reads a batch while many writers record its results. Every reader must see each result once, in
// the same order. No result may appear behind a cursor.
func testCursor(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	const n, writers = 600, 6
	batch := f.submit(newJobs(n)...)
	other := f.submit(newJobs(n)...) // finished in the same statements
	leases := f.run()
	rand.Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })

	var wg sync.WaitGroup
	var writing atomic.Int64
	writing.Store(writers)
	per := len(leases) / writers
	for w := range writers {
		mine := leases[w*per : (w+1)*per]
		wg.Go(func() {
			defer writing.Add(-1)
			for len(mine) > 0 {
				k := min(1+rand.IntN(9), len(mine))
				var fs []store.Finish
				for _, c := range mine[:k] {
					fs = append(fs, finishOf(leaseOf(c), job.Succeeded))
				}
				mine = mine[k:]
				if _, err := f.Finish(t.Context(), fs); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var order [2][]job.ID
	for r := range order {
		wg.Go(func() {
			for after := store.Cursor(0); ; {
				last := writing.Load() == 0
				raws, next, err := f.Results(t.Context(), tenant, batch, after, 1+rand.IntN(40))
				if err != nil {
					t.Error(err)
					return
				}
				for _, raw := range raws {
					order[r] = append(order[r], f.decode(raw).ID)
				}
				if next < after || (len(raws) > 0) != (next > after) {
					t.Errorf("cursor went from %d to %d over %d results", after, next, len(raws))
				}
				after = next
				if len(raws) == 0 && last {
					return
				}
			}
		})
	}
	wg.Wait()
	if len(order[0]) != n || len(order[1]) != n {
		t.Fatalf("the readers saw %d and %d results of %d", len(order[0]), len(order[1]), n)
	}
	seen := map[job.ID]bool{}
	for i, id := range order[0] {
		if seen[id] || order[1][i] != id {
			t.Fatalf("position %d: %s is doubled or out of order", i, id)
		}
		seen[id] = true
	}
	for _, id := range []job.ID{batch, other} {
		if b := f.batch(id); !b.Done() || b.Outcomes[job.Succeeded] != n || b.EndedAt.IsZero() {
			t.Errorf("batch %+v", b)
		}
		if got := len(f.results(id, 250)); got != n {
			t.Errorf("%d results of %d", got, n)
		}
	}
}

// testRaces runs all transitions on the same jobs at once. Each job must end in one record, with at most one
// finish reported as Recorded. The counters must agree with the results.
func testRaces(t *testing.T, open Open) {
	f := newFixture(t, open, Options{InfraBudget: 1000})
	const n = 200
	jobs := newJobs(n)
	for i := range jobs {
		jobs[i].MaxAttempts, jobs[i].RetryOn = 3, []job.Outcome{job.Failed}
	}
	batch := f.submit(jobs...)
	var recorded, done atomic.Int64
	var wg sync.WaitGroup
	stop := func() bool { return done.Load() > 0 || t.Failed() }

	worker := func(name string) {
		for !stop() {
			ds, err := f.Schedule(t.Context(), []string{pool}, 40)
			if err != nil {
				t.Error(err)
				return
			}
			more, err := f.Unclaimed(t.Context(), 0, 20) // deliveries that others also have
			if err != nil {
				t.Error(err)
				return
			}
			var claims []store.Claim
			for _, d := range append(ds, more...) {
				claims = append(claims, store.Claim{Ref: d.Ref, Worker: name})
			}
			got, err := f.Claim(t.Context(), ttl, claims)
			if err != nil {
				t.Error(err)
				return
			}
			held := map[store.LeaseRef]bool{} // a repeated claim gets the same lease
			for _, c := range got {
				if c.Lease != 0 {
					held[leaseOf(c)] = true
				}
			}
			if err := endAll(t, f, name, held, &recorded); err != nil {
				t.Error(err)
				return
			}
		}
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		wg.Go(func() { worker(name) })
	}
	wg.Go(func() {
		for _, i := range rand.Perm(n)[:n/4] {
			if _, err := f.Cancel(t.Context(), jobs[i].ID); err != nil {
				t.Error(err)
			}
			if _, err := f.ReapLeases(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := f.Reap(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	f.eventually("end of the batch", func() bool { return t.Failed() || f.batch(batch).Done() })
	done.Store(1)
	wg.Wait()

	rs := f.results(batch, 77)
	outcomes, byWorker := map[job.Outcome]int64{}, int64(0)
	seen := map[job.ID]bool{}
	for _, r := range rs {
		if seen[r.ID] {
			t.Errorf("two results of %s", r.ID)
		}
		seen[r.ID] = true
		outcomes[r.Outcome]++
		if k := len(r.Attempts); k > 0 && r.Attempts[k-1].Reason == "" && r.Message != "" && r.Message[:3] == "by " {
			byWorker++
		}
	}
	b := f.batch(batch)
	for o, k := range outcomes {
		if b.Outcomes[o] != k {
			t.Errorf("%d results are %s, the counter says %d", k, o, b.Outcomes[o])
		}
	}
	if len(rs) != n || recorded.Load() != byWorker {
		t.Errorf("%d results of %d jobs; %d finishes were told recorded, %d results are theirs", len(rs), n, recorded.Load(), byWorker)
	}
}

// endAll finishes or hands back each lease, some finishes twice.
func endAll(t *testing.T, f *fixture, by string, held map[store.LeaseRef]bool, recorded *atomic.Int64) error {
	var fs []store.Finish
	var rs []store.Release
	for l := range held {
		switch rand.IntN(6) {
		case 0:
			rs = append(rs, store.Release{Worker: by, LeaseRef: l, Reason: job.ReasonDrained})
		case 1:
			fs = append(fs, finishOf(l, job.Failed))
		default:
			fs = append(fs, finishOf(l, job.Succeeded))
		}
	}
	for i := range fs {
		fs[i].Worker = by
	}
	if err := f.Release(t.Context(), rs); err != nil {
		return err
	}
	first, err := f.Finish(t.Context(), fs)
	if err != nil {
		return err
	}
	again, err := f.Finish(t.Context(), fs)
	if err != nil {
		return err
	}
	for i := range first {
		if first[i] != again[i] {
			t.Errorf("%s, and sent again %s", first[i], again[i])
		}
		if first[i] == store.Recorded {
			recorded.Add(1)
		}
	}
	return nil
}
