package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func testClaim(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	t.Run("answers each request in order", func(t *testing.T) {
		f := f.with(t)
		jobs := newJobs(3)
		batch := f.submit(jobs...)
		ds := f.schedule(10)
		stale, unknown := ds[1].Ref, store.Ref{Job: job.NewID(), Generation: 1}
		stale.Generation++
		got := f.claim(ds[2].Ref, stale, unknown, ds[0].Ref)
		for i, want := range []store.Ref{ds[2].Ref, stale, unknown, ds[0].Ref} {
			if got[i].Ref != want || (got[i].Lease != 0) != (i == 0 || i == 3) {
				t.Errorf("answer %d is %+v, asked for %v", i, got[i], want)
			}
		}
		c := got[0]
		if c.Tenant != tenant || c.BatchID != batch || string(c.Spec) != string(jobs[2].Spec) || c.TraceParent != jobs[2].TraceParent || c.QueuedMS < 0 {
			t.Errorf("claimed %+v", c)
		}
		if string(got[3].Spec) != string(jobs[0].Spec) {
			t.Error("specs are mixed up")
		}
		j, err := f.Job(ctx, tenant, c.Job)
		f.must(err)
		if j.State != job.Running || j.Worker != worker || j.Lease != c.Lease || j.StartedAt.IsZero() {
			t.Errorf("running job: %+v", j)
		}
	})
	t.Run("once per generation, but again to the same worker", func(t *testing.T) {
		f := f.with(t)
		f.submitJob(newJob("x"))
		ref := f.schedule(10)[0].Ref
		claims := []store.Claim{{Ref: ref, Worker: "a"}, {Ref: ref, Worker: "b"}}
		got, err := f.Claim(ctx, ttl, claims)
		f.must(err)
		if (got[0].Lease == 0) == (got[1].Lease == 0) {
			t.Fatalf("two workers, one delivery: leases %d and %d", got[0].Lease, got[1].Lease)
		}
		again, err := f.Claim(ctx, ttl, claims)
		f.must(err)
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("sent again (-first +again):\n%s", diff)
		}
	})
	t.Run("again is from now on", func(t *testing.T) {
		f := f.with(t)
		f.submitJob(newJob("x"))
		claims := []store.Claim{{Ref: f.schedule(10)[0].Ref, Worker: worker}}
		got, err := f.Claim(ctx, time.Millisecond, claims)
		f.must(err)
		again, err := f.Claim(ctx, ttl, claims)
		f.must(err)
		if again[0].Lease != got[0].Lease || got[0].Lease == 0 {
			t.Fatalf("lease %d, then %d", got[0].Lease, again[0].Lease)
		}
		if st := f.reap(); st.LeasesExpired != 0 {
			t.Error("the lease ended all the same")
		}
		f.wantState(claims[0].Ref.Job, job.Running)
	})
	t.Run("leases only grow", func(t *testing.T) {
		f := f.with(t)
		j := newJob("again and again")
		f.submitJob(j)
		var last job.Lease
		for range 5 {
			c := f.run()[0]
			if c.Lease <= last {
				t.Fatalf("lease %d after %d", c.Lease, last)
			}
			last = c.Lease
			f.must(f.Release(ctx, []store.Release{{Worker: worker, LeaseRef: leaseOf(c), Reason: job.ReasonDrained}}))
		}
	})
	t.Run("not past expires_in", func(t *testing.T) {
		f := f.with(t)
		f.run()
		j := newJob("waits")
		j.ExpiresIn = 250 * time.Millisecond
		_, d, err := f.SubmitJob(ctx, j, store.Idempotency{}, 100)
		f.must(err)
		f.eventually("expiry", func() bool { return f.reap().JobsExpired == 1 })
		if c := f.claim(d.Ref)[0]; c.Lease != 0 {
			t.Error("claimed an expired job")
		}
	})
}

func testHeartbeat(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	held, canceled, done := f.running(newJob("held")), f.running(newJob("canceled")), f.running(newJob("done"))
	f.finish(done, job.Succeeded)
	_, err := f.Cancel(ctx, canceled.Job)
	f.must(err)
	stale := store.LeaseRef{Job: held.Job, Lease: held.Lease + 1000}
	unknown := store.LeaseRef{Job: job.NewID(), Lease: 1}

	lost, toCancel, err := f.Heartbeat(ctx, ttl, ours(held, canceled, done, stale, unknown))
	f.must(err)
	if want := ours(done, stale, unknown); !cmp.Equal(want, lost) {
		t.Errorf("lost %v, want %v", lost, want)
	}
	if want := ours(canceled); !cmp.Equal(want, toCancel) {
		t.Errorf("canceled %v, want %v", toCancel, want)
	}

	// A short lease ends, a prolonged one does not.
	short, kept := f.running(newJob("short")), f.running(newJob("kept"))
	_, _, err = f.Heartbeat(ctx, time.Millisecond, ours(short, kept))
	f.must(err)
	_, _, err = f.Heartbeat(ctx, ttl, ours(kept))
	f.must(err)
	f.eventually("end of the short lease", func() bool { return f.reap().LeasesExpired == 1 })
	f.wantState(short.Job, job.Queued)
	f.wantState(kept.Job, job.Running)
	if lost, _, err = f.Heartbeat(ctx, ttl, ours(short)); err != nil || len(lost) != 1 {
		t.Errorf("heartbeat of an ended lease: lost %v, %v", lost, err)
	}
}

func testFinish(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	t.Run("is the record, and says so again", func(t *testing.T) {
		f := f.with(t)
		l := f.running(newJob("x"))
		for range 2 {
			if got := f.finish(l, job.Failed); got != store.Recorded {
				t.Fatalf("finish is %s", got)
			}
		}
		if got := f.finish(l, job.Succeeded); got != store.Recorded || f.result(l.Job).Outcome != job.Failed {
			t.Errorf("a second result under the lease is %s, outcome %s", got, f.result(l.Job).Outcome)
		}
		f.wantState(l.Job, job.Finished)
	})
	t.Run("gives the record to who waits for it", func(t *testing.T) {
		f := f.with(t)
		given := map[job.ID]string{}
		var fs []store.Finish
		for _, waits := range []bool{true, false, true} {
			done := finishOf(f.running(newJob("x")), job.Succeeded)
			if waits {
				done.Record = func(raw json.RawMessage) { given[done.Job] = string(raw) }
			}
			fs = append(fs, done)
		}
		fs[2].Lease++ // fenced: there is no record
		_, err := f.Finish(ctx, fs)
		f.must(err)
		raw, err := f.Result(ctx, tenant, fs[0].Job)
		f.must(err)
		if want := map[job.ID]string{fs[0].Job: string(raw)}; !cmp.Equal(want, given) {
			t.Errorf("given %v, want %v", given, want)
		}
	})
	t.Run("fenced", func(t *testing.T) {
		f := f.with(t)
		l := f.running(newJob("x"))
		stale := store.LeaseRef{Job: l.Job, Lease: l.Lease - 1}
		unknown := store.LeaseRef{Job: job.NewID(), Lease: l.Lease}
		got, err := f.Finish(ctx, []store.Finish{finishOf(stale, job.Succeeded), finishOf(l, job.Succeeded), finishOf(unknown, job.Succeeded)})
		f.must(err)
		if want := []store.FinishStatus{store.Fenced, store.Recorded, store.Fenced}; !cmp.Equal(want, got) {
			t.Errorf("statuses %v, want %v", got, want)
		}
	})
	t.Run("another worker's word changes nothing", func(t *testing.T) {
		f := f.with(t)
		l := f.running(newJob("x"))
		for _, name := range []string{"another", "", worker + " ", "%"} {
			forged := finishOf(l, job.Succeeded)
			forged.Worker = name
			// In one call with a valid result, as calls combine messages of many workers.
			lost, _, err := f.Heartbeat(ctx, time.Millisecond, []store.Held{{LeaseRef: l, Worker: name}})
			if f.must(err); len(lost) != 1 {
				t.Errorf("heartbeat of %q: lost %v", name, lost)
			}
			f.must(f.Release(ctx, []store.Release{{LeaseRef: l, Worker: name, Reason: job.ReasonInfra}}))
			got, err := f.Finish(ctx, []store.Finish{forged})
			if f.must(err); got[0] != store.Fenced {
				t.Errorf("finish of %q is %s", name, got[0])
			}
			got, err = f.Finish(ctx, []store.Finish{forged, finishOf(store.LeaseRef{Job: job.NewID(), Lease: l.Lease}, job.Failed)})
			if f.must(err); got[0] != store.Fenced {
				t.Errorf("finish of %q among others is %s", name, got[0])
			}
		}
		if st := f.reap(); st.LeasesExpired != 0 {
			t.Error("another worker ended the lease")
		}
		f.wantState(l.Job, job.Running)
		forged, honest := finishOf(l, job.Succeeded), finishOf(l, job.Failed)
		forged.Worker = "another"
		got, err := f.Finish(ctx, []store.Finish{forged, honest})
		f.must(err)
		if want := []store.FinishStatus{store.Fenced, store.Recorded}; !cmp.Equal(want, got) || f.result(l.Job).Outcome != job.Failed {
			t.Errorf("both at once: %v, want %v, outcome %s", got, want, f.result(l.Job).Outcome)
		}
		if got, err = f.Finish(ctx, []store.Finish{forged}); err != nil || got[0] != store.Fenced {
			t.Errorf("of a job that is over: %v, %v", got, err)
		}
	})
	t.Run("a stale lease changes nothing of the new attempt", func(t *testing.T) {
		f := f.with(t)
		j := newJob("x")
		old := f.running(j)
		f.must(f.Release(ctx, []store.Release{{Worker: worker, LeaseRef: old, Reason: job.ReasonLost}}))
		l := leaseOf(f.run()[0])
		if got := f.finish(old, job.Succeeded); got != store.Fenced {
			t.Errorf("the old attempt's finish is %s", got)
		}
		f.must(f.Release(ctx, []store.Release{{Worker: worker, LeaseRef: old, Reason: job.ReasonLost}}))
		if lost, _, err := f.Heartbeat(ctx, ttl, ours(old)); err != nil || len(lost) != 1 {
			t.Errorf("its heartbeat: lost %v, %v", lost, err)
		}
		f.wantState(j.ID, job.Running)
		if got := f.finish(l, job.Failed); got != store.Recorded || f.result(j.ID).Outcome != job.Failed {
			t.Errorf("the new attempt's finish is %s", got)
		}
	})
	t.Run("every outcome", func(t *testing.T) {
		f := f.with(t)
		for _, o := range job.Outcomes {
			l := f.running(newJob(string(o)))
			if got := f.finish(l, o); got != store.Recorded {
				t.Errorf("%s is %s", o, got)
			}
			f.wantState(l.Job, o.State())
		}
	})
	t.Run("bad input records nothing", func(t *testing.T) {
		f := f.with(t)
		l := f.running(newJob("x"))
		for _, bad := range []store.Finish{
			{Worker: worker, LeaseRef: l, Outcome: job.Succeeded, Result: []byte(`"text"`)},
			{Worker: worker, LeaseRef: l, Outcome: job.Succeeded},
			{Worker: worker, LeaseRef: l, Outcome: "splendid", Result: []byte(`{}`)},
		} {
			_, err := f.Finish(ctx, []store.Finish{bad})
			f.mustBe(err, job.ErrInvalid)
		}
		f.wantState(l.Job, job.Running)
	})
	t.Run("the user's budget", func(t *testing.T) { testUserBudget(t, f.with(t)) })
}

func testUserBudget(t *testing.T, f *fixture) {
	j := newJob("flaky")
	j.MaxAttempts, j.RetryOn = 3, []job.Outcome{job.Failed, job.TimedOut}
	first := f.running(j)
	if got := f.finish(first, job.TimedOut); got != store.Retried {
		t.Fatalf("first attempt is %s", got)
	}
	if got := f.finish(first, job.TimedOut); got != store.Retried {
		t.Errorf("sent again it is %s", got)
	}
	f.wantState(j.ID, job.Queued)

	second := leaseOf(f.run()[0])
	f.must(f.Release(t.Context(), []store.Release{{Worker: worker, LeaseRef: second, Reason: job.ReasonInfra, Message: "no disk"}}))
	if got := f.finish(second, job.Failed); got != store.Fenced {
		t.Errorf("a released lease is %s", got)
	}
	third := leaseOf(f.run()[0])
	if got := f.finish(third, job.Failed); got != store.Retried {
		t.Fatalf("second attempt that counts is %s", got)
	}
	fourth := leaseOf(f.run()[0])
	if got := f.finish(fourth, job.Failed); got != store.Recorded {
		t.Fatalf("last attempt is %s", got)
	}
	want := []job.Attempt{
		{Lease: first.Lease, Worker: worker, Outcome: job.TimedOut},
		{Lease: second.Lease, Worker: worker, Outcome: job.Lost, Reason: job.ReasonInfra},
		{Lease: third.Lease, Worker: worker, Outcome: job.Failed},
		{Lease: fourth.Lease, Worker: worker, Outcome: job.Failed},
	}
	if diff := cmp.Diff(want, f.result(j.ID).Attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}

	other := newJob("fails in another way")
	other.MaxAttempts, other.RetryOn = 3, []job.Outcome{job.Failed}
	if got := f.finish(f.running(other), job.Exception); got != store.Recorded {
		t.Errorf("an outcome not in retry.on is %s", got)
	}
	canceled := newJob("canceled")
	canceled.MaxAttempts, canceled.RetryOn = 3, []job.Outcome{job.Failed}
	l := f.running(canceled)
	_, err := f.Cancel(t.Context(), l.Job)
	f.must(err)
	if got := f.finish(l, job.Failed); got != store.Recorded {
		t.Errorf("a canceled job's failure is %s", got)
	}
}

func testRelease(t *testing.T, open Open) {
	f := newFixture(t, open, Options{InfraBudget: 3})
	ctx := t.Context()
	j := newJob("poison")
	f.submitJob(j)
	give := func(r job.Reason) job.Lease {
		c := f.run()[0]
		f.must(f.Release(ctx, []store.Release{
			{Worker: worker, LeaseRef: leaseOf(c), Reason: r, Message: "a \x00 message"},
			{Worker: worker, LeaseRef: store.LeaseRef{Job: c.Job, Lease: c.Lease + 1}, Reason: r}, // no longer current: skipped
		}))
		return c.Lease
	}
	for _, r := range []job.Reason{job.ReasonDrained, job.ReasonPreempted, job.ReasonDrained, job.ReasonPreempted, job.ReasonLost, job.ReasonInfra} {
		give(r)
		f.wantState(j.ID, job.Queued)
	}
	last := give(job.ReasonLost)
	r := f.result(j.ID)
	if r.Outcome != job.Lost || r.State != job.Finished || r.Name != "poison" || r.Message == "" || len(r.Attempts) != 7 ||
		r.Attempts[6] != (job.Attempt{Lease: last, Worker: worker, Outcome: job.Lost, Reason: job.ReasonLost}) {
		t.Errorf("record after the last loss: %+v", r)
	}
	if got := f.finish(store.LeaseRef{Job: j.ID, Lease: last}, job.Succeeded); got != store.Fenced {
		t.Errorf("the lost attempt's finish is %s", got)
	}
	l := f.running(newJob("x"))
	f.mustBe(f.Release(ctx, []store.Release{{Worker: worker, LeaseRef: l, Reason: "boredom"}}), job.ErrInvalid)

	_, err := f.Cancel(ctx, l.Job)
	f.must(err)
	f.must(f.Release(ctx, []store.Release{{Worker: worker, LeaseRef: l, Reason: job.ReasonDrained}}))
	if r := f.result(l.Job); r.Outcome != job.OutcomeCanceled || r.State != job.Canceled {
		t.Errorf("released after a cancel: %+v", r)
	}
}
