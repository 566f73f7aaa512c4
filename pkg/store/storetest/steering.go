package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func testRequeue(t *testing.T, open Open) {
	ctx := t.Context()
	requeue := func(f *fixture, q store.Requeue) ([]store.Canceling, *store.Action) {
		f.Helper()
		a := act("requeue", "some")
		taken, err := f.Requeue(ctx, a, q)
		f.acted(a, err)
		return taken, a
	}
	t.Run("running", func(t *testing.T) {
		f := newFixture(t, open, Options{InfraBudget: 1, RetryDelay: time.Hour})
		l := f.running(newJob("stuck"))
		taken, a := requeue(f, store.Requeue{Jobs: []job.ID{l.Job}})
		want := []store.Canceling{{LeaseRef: l, Worker: worker, State: job.Queued}}
		if d := cmp.Diff(want, taken); d != "" || a.Outcome != store.ActionDone {
			t.Errorf("%s; taken (-want +got):\n%s", a.Outcome, d)
		}
		if got := f.finish(l, job.Succeeded); got != store.Fenced {
			t.Errorf("the attempt that was taken is %s", got)
		}
		again := f.run() // at once, and the budget is not charged
		f.finish(leaseOf(again[0]), job.Succeeded)
		r := f.result(l.Job)
		if r.Outcome != job.Succeeded || len(r.Attempts) != 2 || r.Attempts[0].Reason != job.ReasonPreempted {
			t.Errorf("recorded: %s, attempts %+v", r.Outcome, r.Attempts)
		}
		taken, a = requeue(f, store.Requeue{Jobs: []job.ID{l.Job}})
		if len(taken) != 0 || a.Outcome != store.ActionUnchanged || f.result(l.Job).Outcome != job.Succeeded {
			t.Errorf("a job that is over: %+v, %s", taken, a.Outcome)
		}
	})
	t.Run("dispatched and waiting", func(t *testing.T) {
		f := newFixture(t, open, Options{RetryDelay: time.Hour})
		j := newJob("unclaimed")
		f.submitJob(j)
		d := f.schedule(1)[0]
		requeue(f, store.Requeue{Jobs: []job.ID{j.ID}})
		f.wantState(j.ID, job.Queued)
		if c := f.claim(d.Ref)[0]; c.Lease != 0 {
			t.Error("the old message claims it")
		}
		l := leaseOf(f.run()[0])
		f.must(f.Release(ctx, []store.Release{{Worker: worker, LeaseRef: l, Reason: job.ReasonInfra}}))
		if n := len(f.schedule(1)); n != 0 {
			t.Fatal("it does not wait")
		}
		_, a := requeue(f, store.Requeue{Jobs: []job.ID{j.ID}})
		var n map[string]int
		if f.must(json.Unmarshal(a.Detail, &n)); n["waiting"] != 1 || len(f.schedule(1)) != 1 {
			t.Errorf("it waits still: %s", a.Detail)
		}
	})
	t.Run("of a worker", func(t *testing.T) {
		f := newFixture(t, open, Options{InfraBudget: 1})
		for i := range 3 {
			f.submitJob(newJob(fmt.Sprint("job", i)))
		}
		ds := f.schedule(3)
		f.claim(ds[0].Ref, ds[1].Ref)
		other := f.claimAs("worker-2", ttl, ds[2].Ref)[0]
		canceled, err := f.Cancel(ctx, ds[0].Job)
		if f.must(err); canceled.State != job.Running {
			t.Fatalf("cancel: %+v", canceled)
		}
		taken, _ := requeue(f, store.Requeue{Worker: worker})
		got := map[job.ID]job.State{}
		for _, c := range taken {
			got[c.Job] = c.State
		}
		if d := cmp.Diff(map[job.ID]job.State{ds[0].Job: job.Canceled, ds[1].Job: job.Queued}, got); d != "" {
			t.Errorf("taken (-want +got):\n%s", d)
		}
		f.wantState(other.Job, job.Running)
		if got := f.finishAs("worker-2", leaseOf(other), job.Succeeded); got != store.Recorded {
			t.Errorf("the other worker's job is %s", got)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		l := f.running(newJob("running"))
		_, err := f.Requeue(ctx, act("requeue", "some"), store.Requeue{Jobs: []job.ID{l.Job, job.NewID()}})
		f.mustBe(err, job.ErrNotFound)
		f.wantState(l.Job, job.Running)
	})
}

func testPause(t *testing.T, open Open) {
	ctx := t.Context()
	pause := func(f *fixture, kind, name string, want store.ActionOutcome) {
		f.Helper()
		a := act("pause", name)
		if got := f.acted(a, f.Pause(ctx, a, store.Pausable{Kind: kind, Name: name})); got != want {
			f.Errorf("pause %s is %s, want %s", kind, got, want)
		}
	}
	resume := func(f *fixture, kind, name string, want store.ActionOutcome) {
		f.Helper()
		a := act("resume", name)
		if got := f.acted(a, f.Resume(ctx, a, store.Pausable{Kind: kind, Name: name})); got != want {
			f.Errorf("resume %s is %s, want %s", kind, got, want)
		}
	}
	count := func(f *fixture, want int, what string) {
		f.Helper()
		if n := len(f.schedule(1000)); n != want {
			f.Errorf("%s: %d jobs were dispatched, want %d", what, n, want)
		}
	}
	t.Run("batch", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		held, other := f.submit(newJobs(5)...), f.submit(newJobs(2)...)
		ds := f.schedule(3) // the oldest batch first
		f.claim(ds[0].Ref)
		live := f.batch(held).Counts
		pause(f, store.PauseBatch, string(held), store.ActionDone)
		pause(f, store.PauseBatch, string(held), store.ActionUnchanged)
		if n := f.batch(held).Counts[job.Dispatched]; n != 0 || f.batch(held).Counts[job.Running] != live[job.Running] {
			t.Errorf("counts %v after %v", f.batch(held).Counts, live)
		}
		for _, d := range ds[1:] {
			f.claim(d.Ref)
		}
		if n := f.batch(held).Counts[job.Running]; n != live[job.Running] {
			t.Errorf("%d run of a paused batch, want %d", n, live[job.Running])
		}
		if !f.batch(held).Paused || f.batch(other).Paused {
			t.Error("the one batch does not say that it is paused, or the other one does")
		}
		rest := f.batch(other).Counts[job.Queued]
		count(f, int(rest), "while it is paused, of the other batch")
		count(f, 0, "while it is paused")
		ps, err := f.Pauses(ctx)
		if f.must(err); len(ps) != 1 || ps[0].Kind != store.PauseBatch || ps[0].Name != string(held) || ps[0].By != "ops" || ps[0].Reason != "because" || ps[0].At.IsZero() {
			t.Errorf("paused: %+v", ps)
		}
		resume(f, store.PauseBatch, string(held), store.ActionDone)
		resume(f, store.PauseBatch, string(held), store.ActionUnchanged)
		if f.batch(held).Paused {
			t.Error("it says that it is paused afterwards")
		}
		count(f, 5-int(live[job.Running]), "afterwards")
	})
	t.Run("capped batch", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		jobs := newJobs(3)
		for i := range jobs {
			jobs[i].Caps = []store.Cap{{Batch: true, Label: "k", Value: fmt.Sprint(i)}}
		}
		b := newBatch()
		b.LabelCaps = job.LabelCaps{"k": 1}
		held, err := f.SubmitBatch(ctx, b, jobs)
		f.must(err)
		pause(f, store.PauseBatch, string(held), store.ActionDone)
		count(f, 0, "while it is paused")
		resume(f, store.PauseBatch, string(held), store.ActionDone)
		count(f, 3, "afterwards")
	})
	t.Run("tenant", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		f.submit(newJobs(2)...)
		ds := f.schedule(2)
		f.claim(ds[0].Ref)
		stranger := newJob("stranger's")
		stranger.Tenant = "stranger"
		pause(f, store.PauseTenant, tenant, store.ActionDone)
		f.wantState(ds[0].Job, job.Running)
		f.wantState(ds[1].Job, job.Queued)
		for i, want := range []string{"", "paused by an operator"} {
			if j, err := f.Job(ctx, tenant, ds[i].Job); err != nil || j.Message != want {
				t.Errorf("a %s job says %q, %v; want %q", j.State, j.Message, err, want)
			}
		}
		f.submitJob(stranger)
		single := newJob("single")
		single.Pool = "elsewhere"
		_, d, err := f.SubmitJob(ctx, single, store.Idempotency{}, 10)
		if f.must(err); d != nil {
			t.Error("a single job of a paused tenant is dispatched")
		}
		count(f, 1, "while it is paused, of another tenant")
		resume(f, store.PauseTenant, tenant, store.ActionDone)
		count(f, 1, "afterwards")
	})
	t.Run("pool", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		f.must(f.PutWorkers(ctx, []store.Worker{{ID: "a", Pool: "p", StartedAt: time.Now()}, {ID: "b", Pool: "q", StartedAt: time.Now()}}))
		pause(f, store.PausePool, "p", store.ActionDone)
		pause(f, store.PausePool, "p", store.ActionUnchanged)
		if c := f.worker("a").Cordon; c == nil || c.By != "ops" || c.Reason != "its pool is paused: because" || f.worker("b").Cordon != nil {
			t.Errorf("cordons %+v and %+v", c, f.worker("b").Cordon)
		}
		own := act("cordon", "a")
		own.Reason = "a fan"
		f.must(f.Cordon(ctx, own, "a"))
		if c := f.worker("a").Cordon; c == nil || c.Reason != "a fan" {
			t.Errorf("its own cordon is %+v", c)
		}
		resume(f, store.PausePool, "p", store.ActionDone)
		if f.worker("a").Cordon == nil {
			t.Error("its own cordon ended with that of the pool")
		}
		resume(f, store.PausePool, "p", store.ActionUnchanged)
	})
	t.Run("too many batches", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		var first job.ID
		for i := range store.MaxPaused + 1 {
			batch := f.submit(newJob("one"))
			what := store.Pausable{Kind: store.PauseBatch, Name: string(batch)}
			err := f.Pause(ctx, act("pause", what.Name), what)
			if i < store.MaxPaused {
				f.must(err)
			} else if f.mustBe(err, job.ErrTooMany); f.batch(batch).Paused {
				t.Error("the one too many is paused")
			}
			if i == 0 {
				first = batch
			}
		}
		_, err := f.CancelBatch(ctx, first) // finished jobs do not count
		f.must(err)
		next := f.submit(newJob("one"))
		f.must(f.Pause(ctx, act("pause", string(next)), store.Pausable{Kind: store.PauseBatch, Name: string(next)}))
		ps, err := f.Pauses(ctx)
		if f.must(err); len(ps) != store.MaxPaused {
			t.Errorf("%d batches are listed as paused", len(ps))
		}
		count(f, 1, "of the one that is not paused")
	})
	t.Run("what there is not", func(t *testing.T) {
		f := newFixture(t, open, Options{})
		f.mustBe(f.Pause(ctx, act("pause", "x"), store.Pausable{Kind: store.PauseBatch, Name: string(job.NewID())}), job.ErrNotFound)
		f.mustBe(f.Pause(ctx, act("pause", "x"), store.Pausable{Kind: store.PauseTenant, Name: "nobody"}), job.ErrNotFound)
		f.mustBe(f.Resume(ctx, act("resume", "x"), store.Pausable{Kind: store.PauseTenant, Name: "nobody"}), job.ErrNotFound)
		f.mustBe(f.Pause(ctx, act("pause", "x"), store.Pausable{Kind: "fleet", Name: "x"}), job.ErrInvalid)
	})
}

func testOverride(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	granted := store.Tenant{Name: "o", Weight: 2, MaxRunning: 7, LabelCaps: job.LabelCaps{"problem": 2}, Ceiling: json.RawMessage(`{"cpu":4}`)}
	f.mustBe(f.Override(ctx, act("override", "o"), "o", store.Override{}, 0), job.ErrNotFound)
	f.must(f.PutTenant(ctx, granted))
	set := func(o store.Override, d time.Duration) {
		f.Helper()
		a := act("override", "o")
		f.acted(a, f.Override(ctx, a, "o", o, d))
	}
	got := func() store.Tenant {
		f.Helper()
		o, err := f.Tenant(ctx, "o")
		f.must(err)
		return o
	}
	weight, unbound := 5.5, 0
	set(store.Override{Weight: &weight, MaxRunning: &unbound}, 0)
	if o := got(); o.Weight != 5.5 || o.MaxRunning != 0 || o.LabelCaps["problem"] != 2 || o.Override == nil || o.Override.Until != nil || *o.Override.Granted.Weight != 2 {
		t.Errorf("overridden: %+v, %+v", o, o.Override)
	}
	// The dispatchers put the granted values as they start, behind the override.
	granted.Weight, granted.MaxRunning, granted.LabelCaps = 3, 8, job.LabelCaps{"problem": 4}
	f.must(f.PutTenant(ctx, granted))
	if o := got(); o.Weight != 5.5 || o.MaxRunning != 0 || o.LabelCaps["problem"] != 4 {
		t.Errorf("granted behind it: %+v", o)
	}
	one, none := 1, job.LabelCaps{}
	set(store.Override{MaxRunning: &one, LabelCaps: &none}, time.Hour) // replaces the other
	if o := got(); o.Weight != 3 || o.MaxRunning != 1 || o.LabelCaps != nil || o.Override.Until == nil || o.Override.Set.Weight != nil {
		t.Errorf("overridden again: %+v, %+v", o, o.Override)
	}
	jobs := newJobs(3)
	for i := range jobs {
		jobs[i].Tenant = "o"
	}
	b := newBatch()
	b.Tenant = "o"
	_, err := f.SubmitBatch(ctx, b, jobs)
	f.must(err)
	if n := len(f.schedule(10)); n != 1 {
		t.Errorf("%d jobs were dispatched at once, and one may", n)
	}
	for _, want := range []store.ActionOutcome{store.ActionDone, store.ActionUnchanged} {
		a := act("end-override", "o")
		if got := f.acted(a, f.EndOverride(ctx, a, "o")); got != want {
			t.Errorf("the end is %s, want %s", got, want)
		}
	}
	granted.Version = 2
	if d := cmp.Diff(granted, got()); d != "" {
		t.Errorf("afterwards (-want +got):\n%s", d)
	}
	set(store.Override{MaxRunning: &one}, time.Millisecond)
	f.eventually("its end by itself", func() bool { f.reap(); return got().Override == nil })
	if d := cmp.Diff(granted, got()); d != "" {
		t.Errorf("after its time (-want +got):\n%s", d)
	}
	f.mustBe(f.EndOverride(ctx, act("end-override", "x"), "nobody"), job.ErrNotFound)
}

func testVerify(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	var batches []job.ID
	for range 3 {
		batches = append(batches, f.submit(newJobs(4)...))
	}
	ds := f.schedule(4)
	for i, c := range f.claim(ds[0].Ref, ds[1].Ref, ds[2].Ref) {
		f.finish(leaseOf(c), []job.Outcome{job.Succeeded, job.Failed, job.Succeeded}[i])
	}
	f.claim(ds[3].Ref)
	done := f.submit(newJobs(1)...)
	_, err := f.CancelBatch(ctx, done)
	f.must(err)
	first, err := f.Verify(ctx, store.VerifyQuery{Limit: 2})
	f.must(err)
	rest, err := f.Verify(ctx, store.VerifyQuery{Limit: 2, After: first[1].Batch})
	f.must(err)
	results, live := int64(0), int64(0)
	var seen []job.ID
	for _, v := range append(first, rest...) {
		if len(v.Problems) > 0 || v.Ended || v.Repairable {
			t.Errorf("%+v", v)
		}
		results, live, seen = results+v.Results, live+v.Live, append(seen, v.Batch)
	}
	if d := cmp.Diff(batches, seen); d != "" || results != 3 || live != 9 {
		t.Errorf("%d results and %d live, batches that are not over (-want +got):\n%s", results, live, d)
	}
	over, err := f.Verify(ctx, store.VerifyQuery{Batch: done})
	if f.must(err); len(over) != 1 || !over[0].Ended || over[0].Rows[job.OutcomeCanceled] != 1 || len(over[0].Problems) != 0 {
		t.Errorf("one that is over: %+v", over)
	}
	_, err = f.Verify(ctx, store.VerifyQuery{Batch: job.NewID()})
	f.mustBe(err, job.ErrNotFound)
	a := act("repair", string(done))
	if got := f.acted(a, f.Repair(ctx, a, done)); got != store.ActionUnchanged {
		t.Errorf("the repair of a good one is %s", got)
	}
}
