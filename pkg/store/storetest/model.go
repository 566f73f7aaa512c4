package storetest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// modelJob is a job in the model.
type modelJob struct {
	id         job.ID
	state      job.State
	outcome    job.Outcome
	gen        job.Generation
	lease      job.Lease
	retries    int // user attempts left after the current one
	losses     int
	cancel     bool
	batch      job.ID
	pastLeases []job.Lease
}

func (m *modelJob) move(t *rapid.T, to job.State) {
	if !job.CanMove(m.state, to) {
		t.Fatalf("the model moved from %s to %s", m.state, to)
	}
	if m.state == job.Running {
		m.pastLeases = append(m.pastLeases, m.lease)
	}
	m.state = to
}

const modelBudget = 3

// model drives a store and a model of it with the same random steps.
type model struct {
	*fixture
	jobs    map[job.ID]*modelJob
	batches map[job.ID]bool
	last    job.Lease
}

// testModel compares the store with the model after every step.
func testModel(t *testing.T, open Open) {
	f := newFixture(t, open, Options{InfraBudget: modelBudget})
	rapid.Check(t, func(rt *rapid.T) {
		// One store serves all runs: jobs left queued by earlier runs end first.
		for _, b := range must(f.Batches(t.Context(), tenant, "", 1000)) {
			if !b.Done() {
				for _, c := range must(f.CancelBatch(t.Context(), b.ID)) {
					f.finish(c.LeaseRef, job.OutcomeCanceled)
				}
			}
		}
		m := &model{fixture: f, jobs: map[job.ID]*modelJob{}, batches: map[job.ID]bool{}}
		rt.Repeat(map[string]func(*rapid.T){
			"submit": m.submit, "schedule": m.scheduleSome, "claim": m.claimSome, "finish": m.finishOne, "stale": m.stale,
			"release": m.releaseOne, "cancel": m.cancelOne, "heartbeat": m.heartbeat, "lose": m.lose,
			"cancel by label": m.cancelAll, "answer": m.answerOne, "": m.check,
		})
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (m *model) in(states ...job.State) []*modelJob {
	var found []*modelJob
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if slices.Contains(states, m.jobs[id].state) {
			found = append(found, m.jobs[id])
		}
	}
	return found
}

// pick draws a job in one of the states, or skips the step.
func (m *model) pick(t *rapid.T, states ...job.State) *modelJob {
	found := m.in(states...)
	if len(found) == 0 {
		t.Skip("none")
	}
	return rapid.SampledFrom(found).Draw(t, "job")
}

func (m *model) submit(t *rapid.T) {
	jobs := newJobs(rapid.IntRange(1, 4).Draw(t, "jobs"))
	retries := rapid.IntRange(0, 2).Draw(t, "retries")
	for i := range jobs {
		jobs[i].CacheKey = []byte("the same")
		jobs[i].MaxAttempts, jobs[i].RetryOn = retries+1, []job.Outcome{job.Failed}
	}
	id := must(m.SubmitBatch(m.Context(), newBatch(), jobs))
	m.batches[id] = true
	for _, j := range jobs {
		m.jobs[j.ID] = &modelJob{id: j.ID, state: job.Queued, retries: retries, batch: id}
	}
}

func (m *model) scheduleSome(t *rapid.T) {
	window := rapid.IntRange(0, 6).Draw(t, "window")
	want := min(max(window-len(m.in(job.Dispatched)), 0), len(m.in(job.Queued)))
	ds := must(m.Schedule(m.Context(), []string{pool}, window))
	if len(ds) != want {
		t.Fatalf("window %d released %d, want %d", window, len(ds), want)
	}
	for _, d := range ds {
		j := m.jobs[d.Job]
		j.move(t, job.Dispatched)
		if j.gen++; d.Generation != j.gen {
			t.Fatalf("generation %d, want %d", d.Generation, j.gen)
		}
	}
}

func (m *model) claimSome(t *rapid.T) {
	j := m.pick(t, job.Queued, job.Dispatched, job.Finished, job.Canceled)
	gen := j.gen - job.Generation(rapid.IntRange(0, 1).Draw(t, "age"))
	got := must(m.Claim(m.Context(), ttl, []store.Claim{{Ref: store.Ref{Job: j.id, Generation: gen}, Worker: worker}}))[0]
	if allowed := j.state == job.Dispatched && gen == j.gen; allowed != (got.Lease > 0) {
		t.Fatalf("claim of generation %d of a job that is %s in %d: lease %d", gen, j.state, j.gen, got.Lease)
	}
	if got.Lease > 0 {
		if got.Lease <= m.last {
			t.Fatalf("lease %d after %d", got.Lease, m.last)
		}
		j.move(t, job.Running)
		j.lease, m.last = got.Lease, got.Lease
	}
}

func (m *model) finishOne(t *rapid.T) {
	j := m.pick(t, job.Running)
	o := rapid.SampledFrom(job.Outcomes).Draw(t, "outcome")
	want := store.Recorded
	if o == job.Failed && j.retries > 0 && !j.cancel {
		want = store.Retried
	}
	got := must(m.Finish(m.Context(), []store.Finish{finishOf(store.LeaseRef{Job: j.id, Lease: j.lease}, o)}))[0]
	if got != want {
		t.Fatalf("finish with %s is %s, want %s", o, got, want)
	}
	if want == store.Retried {
		j.retries--
		j.move(t, job.Queued)
		return
	}
	j.outcome = o
	j.move(t, o.State())
}

// stale repeats the calls of past attempts.
func (m *model) stale(t *rapid.T) {
	j := m.pick(t, job.States...)
	if len(j.pastLeases) == 0 {
		t.Skip("none")
	}
	l := store.LeaseRef{Job: j.id, Lease: rapid.SampledFrom(j.pastLeases).Draw(t, "lease")}
	must(m.Finish(m.Context(), []store.Finish{finishOf(l, job.Succeeded)}))
	if err := m.Release(m.Context(), []store.Release{{Worker: worker, LeaseRef: l, Reason: job.ReasonInfra}}); err != nil {
		t.Fatal(err)
	}
	lost, _, err := m.Heartbeat(m.Context(), ttl, ours(l))
	if err != nil || len(lost) != 1 {
		t.Fatalf("heartbeat of an old lease: lost %v, %v", lost, err)
	}
}

func (m *model) releaseOne(t *rapid.T) {
	j := m.pick(t, job.Running)
	reason := rapid.SampledFrom([]job.Reason{job.ReasonLost, job.ReasonInfra, job.ReasonDrained, job.ReasonPreempted}).Draw(t, "reason")
	l := store.LeaseRef{Job: j.id, Lease: j.lease}
	if err := m.Release(m.Context(), []store.Release{{Worker: worker, LeaseRef: l, Reason: reason}}); err != nil {
		t.Fatal(err)
	}
	j.handedBack(t, reason)
}

// lose lets a lease expire and the reaper find it.
func (m *model) lose(t *rapid.T) {
	j := m.pick(t, job.Running)
	if _, _, err := m.Heartbeat(m.Context(), time.Millisecond, ours(store.LeaseRef{Job: j.id, Lease: j.lease})); err != nil {
		t.Fatal(err)
	}
	m.eventually("end of the lease", func() bool { return m.reap().LeasesExpired == 1 })
	j.handedBack(t, job.ReasonLost)
}

// handedBack returns the state of a running job whose attempt ended for infrastructure reasons.
func (j *modelJob) handedBack(t *rapid.T, reason job.Reason) {
	charged := reason == job.ReasonLost || reason == job.ReasonInfra
	if charged {
		j.losses++
	}
	switch {
	case j.cancel:
		j.outcome = job.OutcomeCanceled
		j.move(t, job.Canceled)
	case charged && j.losses >= modelBudget:
		j.outcome = job.Lost
		j.move(t, job.Finished)
	default:
		j.move(t, job.Queued)
	}
}

func (m *model) cancelOne(t *rapid.T) {
	j := m.pick(t, job.States...)
	got := must(m.Cancel(m.Context(), j.id))
	switch j.state {
	case job.Queued, job.Dispatched:
		j.outcome = job.OutcomeCanceled
		j.move(t, job.Canceled)
	case job.Running:
		j.cancel = true
	}
	if got.State != j.state || (got.State == job.Running) != (got.Lease == j.lease && got.Lease > 0) {
		t.Fatalf("cancel says %+v of a job that is %s", got, j.state)
	}
}

// cancelAll cancels everything: all jobs have one label in common.
func (m *model) cancelAll(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
		t.Skip("nothing would be left")
	}
	c, err := m.CancelMany(m.Context(), tenant, store.CancelQuery{Labels: map[string]string{"k": "v"}})
	if err != nil || len(c.Running) != len(m.in(job.Running)) || c.Ended != int64(len(m.in(job.Queued, job.Dispatched))) || c.More {
		t.Fatalf("canceled %+v, %v; the model has %d and %d", c, err, len(m.in(job.Queued, job.Dispatched)), len(m.in(job.Running)))
	}
	for _, j := range m.in(job.Queued, job.Dispatched, job.Running) {
		if j.state == job.Running {
			j.cancel = true
			continue
		}
		j.outcome = job.OutcomeCanceled
		j.move(t, job.Canceled)
	}
}

// answerOne answers a job with a record, under its own generation or another.
func (m *model) answerOne(t *rapid.T) {
	j := m.pick(t, job.States...)
	gen := j.gen - job.Generation(rapid.IntRange(0, 1).Draw(t, "age"))
	current := j.state == job.Dispatched && gen == j.gen
	found := must(m.Repeats(m.Context(), []store.Ref{{Job: j.id, Generation: gen}}))
	if len(found) > 1 || len(found) > 0 && !current {
		t.Fatalf("a job that is %s in %d has repeats in %d: %+v", j.state, j.gen, gen, found)
	}
	if len(found) == 0 {
		t.Skip("none")
	}
	done := must(m.Answer(m.Context(), found))
	if len(done) != 1 || done[0] != found[0].Ref {
		t.Fatalf("answered %v, want %v", done, found[0].Ref)
	}
	r := m.decode(found[0].Record)
	if r.Cached {
		t.Fatalf("the origin %s is an answer itself", r.ID)
	}
	j.outcome = r.Outcome
	j.move(t, job.Finished)
}

func (m *model) heartbeat(t *rapid.T) {
	j := m.pick(t, job.Running)
	lost, canceled, err := m.Heartbeat(m.Context(), ttl, ours(store.LeaseRef{Job: j.id, Lease: j.lease}))
	if err != nil || len(lost) != 0 || (len(canceled) == 1) != j.cancel {
		t.Fatalf("heartbeat: lost %v, canceled %v, %v", lost, canceled, err)
	}
}

func (m *model) check(t *rapid.T) {
	for id := range m.batches {
		counts, outcomes := map[job.State]int64{}, map[job.Outcome]int64{}
		for _, s := range job.States {
			counts[s] = 0
		}
		ended := map[job.ID]job.Outcome{}
		for _, j := range m.jobs {
			if j.batch != id {
				continue
			}
			counts[j.state]++
			if j.state.Terminal() {
				outcomes[j.outcome]++
				ended[j.id] = j.outcome
			}
		}
		b := must(m.Batch(m.Context(), tenant, id))
		done := must(m.BatchDone(m.Context(), tenant, id))
		if d := cmp.Diff(counts, b.Counts) + cmp.Diff(outcomes, b.Outcomes); d != "" || b.Done() != !b.EndedAt.IsZero() || b.Done() != done {
			t.Fatalf("batch, done: %t (-model +store):\n%s", done, d)
		}
		got := map[job.ID]job.Outcome{}
		for _, r := range m.results(id, 3) {
			got[r.ID] = r.Outcome
		}
		far := must(m.Progress(m.Context(), []job.ID{id}))
		if d := cmp.Diff([]store.Progress{{Batch: id, Tenant: tenant, Recorded: store.Cursor(len(ended)), Done: done}}, far); d != "" {
			t.Fatalf("progress (-model +store):\n%s", d)
		}
		if d := cmp.Diff(ended, got); d != "" {
			t.Fatalf("results (-model +store):\n%s", d)
		}
	}
}
