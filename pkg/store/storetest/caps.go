package storetest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// capped submits jobs with these labels as one batch, with caps of the batch and of its tenant. It returns
// the labels of each job.
func (f *fixture) capped(tenantCaps, batchCaps job.LabelCaps, labels ...map[string]string) map[job.ID]map[string]string {
	f.Helper()
	of := map[job.ID]map[string]string{}
	jobs := newJobs(len(labels))
	for i, l := range labels {
		jobs[i].Caps = store.CapsOf(l, tenantCaps, batchCaps)
		of[jobs[i].ID] = l
	}
	b := newBatch()
	b.LabelCaps = batchCaps
	_, err := f.SubmitBatch(f.Context(), b, jobs)
	f.must(err)
	return of
}

func problems(names ...string) (labels []map[string]string) {
	for _, n := range names {
		labels = append(labels, map[string]string{"problem": n})
	}
	return labels
}

func repeat(n int, name string) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = name
	}
	return names
}

// values counts dispatched jobs by the value of a label.
func values(ds []store.Dispatch, of map[job.ID]map[string]string, label string) map[string]int {
	n := map[string]int{}
	for _, d := range ds {
		n[of[d.Job][label]]++
	}
	return n
}

func testCaps(t *testing.T, open Open) {
	two := job.LabelCaps{"problem": 2}
	t.Run("a batch's", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		// The window sees past a value that has many jobs in front of the others.
		of := f.capped(nil, two, problems(append(repeat(50, "a"), "b", "b", "b", "c", "")...)...)
		ds := f.schedule(8)
		if diff := cmp.Diff(map[string]int{"a": 2, "b": 2, "c": 1, "": 1}, values(ds, of, "problem")); diff != "" {
			t.Fatalf("released (-want +got):\n%s", diff)
		}
		var held []store.LeaseRef // of value a
		for _, d := range ds {
			if c := f.claim(d.Ref)[0]; of[d.Job]["problem"] == "a" {
				held = append(held, leaseOf(c))
			}
		}
		if got := f.schedule(8); len(got) != 0 {
			t.Errorf("released above the cap: %v", values(got, of, "problem"))
		}
		f.finish(held[0], job.Succeeded)
		if got := values(f.schedule(8), of, "problem"); !cmp.Equal(got, map[string]int{"a": 1}) {
			t.Errorf("released %v for one that ended", got)
		}
	})
	t.Run("a tenant's, over batches and lone jobs", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		f.must(f.PutTenant(t.Context(), store.Tenant{Name: tenant, LabelCaps: two}))
		of := f.capped(two, nil, problems("a", "b")...)
		for id, l := range f.capped(two, nil, problems("a", "a")...) {
			of[id] = l
		}
		lone := newJob("lone")
		lone.Caps = store.CapsOf(map[string]string{"problem": "a"}, two, nil)
		of[lone.ID] = map[string]string{"problem": "a"}
		if _, d, err := f.SubmitJob(t.Context(), lone, store.Idempotency{}, 100); err != nil || d != nil {
			t.Fatalf("a capped job went past the scheduler: %v, %v", d, err)
		}
		if got := values(f.schedule(100), of, "problem"); !cmp.Equal(got, map[string]int{"a": 2, "b": 1}) {
			t.Errorf("released %v", got)
		}
		f.must(f.PutTenant(t.Context(), store.Tenant{Name: tenant, LabelCaps: job.LabelCaps{"problem": 3}}))
		if got := values(f.schedule(100), of, "problem"); !cmp.Equal(got, map[string]int{"a": 1}) {
			t.Errorf("released %v after the cap was raised by one", got)
		}
		f.must(f.PutTenant(t.Context(), store.Tenant{Name: tenant}))
		if got := values(f.schedule(100), of, "problem"); !cmp.Equal(got, map[string]int{"a": 1}) {
			t.Errorf("released %v after the cap was taken away", got)
		}
	})
	t.Run("a full value of one label hides no other, however many lanes it fills", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		one := job.LabelCaps{"a": 1, "b": 1}
		labels := []map[string]string{{"a": "free", "b": "free"}}
		for i := range 4000 {
			labels = append(labels, map[string]string{"a": "full", "b": fmt.Sprint(i)})
		}
		of := f.capped(nil, one, labels...)
		got := map[string]int{}
		for range 100 { // each goes past a thousand lanes, from anywhere
			for value, n := range values(f.schedule(8), of, "a") {
				got[value] += n
			}
			if got["free"] > 0 && got["full"] > 0 {
				break
			}
		}
		if diff := cmp.Diff(map[string]int{"free": 1, "full": 1}, got); diff != "" {
			t.Errorf("released (-want +got):\n%s", diff)
		}
	})
	t.Run("recovers from a holder that died", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		f.capped(nil, job.LabelCaps{"problem": 1}, problems("a", "a")...)
		_, err := f.Claim(t.Context(), 0, []store.Claim{{Ref: f.schedule(8)[0].Ref, Worker: worker}})
		f.must(err)
		f.eventually("the lease's end", func() bool { return f.reap().LeasesExpired == 1 })
		if got := f.schedule(8); len(got) != 1 {
			t.Errorf("released %d", len(got))
		}
	})
	t.Run("retried batches keep theirs", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		b := newBatch()
		b.LabelCaps = job.LabelCaps{"problem": 1}
		jobs := newJobs(2)
		for i := range jobs {
			jobs[i].Caps = store.CapsOf(map[string]string{"problem": "a"}, nil, b.LabelCaps)
		}
		first, err := f.SubmitBatch(t.Context(), b, jobs)
		f.must(err)
		for range jobs {
			f.finish(leaseOf(f.run()[0]), job.Failed)
		}
		again, err := f.RetryBatch(t.Context(), first, newBatch())
		f.must(err)
		if got := f.schedule(8); len(got) != 1 {
			t.Errorf("released %d", len(got))
		}
		if diff := cmp.Diff(b.LabelCaps, f.batch(again).LabelCaps); diff != "" {
			t.Errorf("caps (-want +got):\n%s", diff)
		}
	})
	t.Run("never above, never idle", func(t *testing.T) { testCapsHold(t, open) })
}

// testCapsHold runs random jobs with two capped labels. No value ever exceeds its cap. Once no more jobs are
// released, every waiting job has a value at its cap.
func testCapsHold(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	rapid.Check(t, func(t *rapid.T) {
		f := f.with(f.TB)
		caps := job.LabelCaps{"problem": rapid.IntRange(1, 3).Draw(t, "per problem"), "model": rapid.IntRange(1, 4).Draw(t, "per model")}
		var labels []map[string]string
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			l := map[string]string{}
			for label, n := range map[string]int{"problem": 5, "model": 2} {
				if v := rapid.IntRange(0, n).Draw(t, label); v > 0 {
					l[label] = fmt.Sprint(v)
				}
			}
			labels = append(labels, l)
		}
		waiting := f.capped(nil, caps, labels...)
		running := map[store.LeaseRef]map[string]string{}
		full := func(l map[string]string) (is, over bool) {
			for label, most := range caps {
				n := 0
				for _, r := range running {
					if v, ok := l[label]; ok && r[label] == v {
						n++
					}
				}
				is, over = is || n >= most, over || n > most
			}
			return is, over
		}
		for len(waiting)+len(running) > 0 {
			for ds := f.schedule(rapid.IntRange(1, 40).Draw(t, "window")); len(ds) > 0; ds = f.schedule(40) {
				for _, d := range ds {
					running[leaseOf(f.claim(d.Ref)[0])] = waiting[d.Job]
					delete(waiting, d.Job)
				}
			}
			for _, l := range running {
				if _, over := full(l); over {
					t.Fatalf("caps %v: running %v", caps, running)
				}
			}
			for id, l := range waiting {
				if is, _ := full(l); !is {
					t.Fatalf("caps %v: %s with %v waits beside %v", caps, id, l, running)
				}
			}
			for lease := range running {
				f.finish(lease, job.Succeeded)
				delete(running, lease)
				if rapid.Bool().Draw(t, "enough ended") {
					break
				}
			}
		}
	})
}
