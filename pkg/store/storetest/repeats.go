package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// keyed returns a job that can be answered with the record of an equal job.
func keyed(name, key string) store.NewJob {
	j := newJob(name)
	j.CacheKey = []byte(key)
	return j
}

// refs schedules all jobs and returns the possible repeats.
func (f *fixture) refs() (all []store.Ref, cacheable []store.Ref) {
	f.Helper()
	for _, d := range f.schedule(1 << 20) {
		all = append(all, d.Ref)
		if d.Cacheable {
			cacheable = append(cacheable, d.Ref)
		}
	}
	return all, cacheable
}

func (f *fixture) repeats(refs ...store.Ref) []store.Repeat {
	f.Helper()
	got, err := f.Repeats(f.Context(), refs)
	f.must(err)
	return got
}

func testRepeats(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	first := f.running(keyed("first", "k1"))
	f.finish(first, job.Failed)
	for name, o := range map[string]job.Outcome{"slow": job.TimedOut, "big": job.OutOfMemory, "unlucky": job.Lost, "unsolved": job.CheckError, "unset": job.SetupError} {
		f.finish(f.running(keyed(name, "k-"+name)), o)
	}

	// A batch of a job that ran before, one that did not, one without a key, and some whose equals ended
	// without a usable result.
	again := keyed("again", "k1")
	batch := f.submit(again, keyed("fresh", "k2"), newJob("plain"), keyed("slow", "k-slow"), keyed("big", "k-big"), keyed("unlucky", "k-unlucky"),
		keyed("unsolved", "k-unsolved"), keyed("unset", "k-unset"))
	all, cacheable := f.refs()
	if len(all) != 8 || len(cacheable) != 7 {
		t.Errorf("%d dispatched, of which %d may be repeats; want 8 and 7", len(all), len(cacheable))
	}
	got := f.repeats(all...)
	if len(got) != 1 || got[0].Job != again.ID || got[0].Origin != first.Job || got[0].BatchID != batch || !strings.Contains(string(got[0].Spec), `"again"`) {
		t.Fatalf("repeats %+v", got)
	}
	if r := f.decode(got[0].Record); r.ID != first.Job || r.Outcome != job.Failed || r.Stdout.Text != "out" {
		t.Errorf("record %s", got[0].Record)
	}
	stale := got[0]
	stale.Generation++
	done, err := f.Answer(ctx, []store.Repeat{stale})
	f.must(err)
	if len(done) != 0 {
		t.Errorf("answered another generation: %v", done)
	}
	done, err = f.Answer(ctx, got)
	f.must(err)
	if len(done) != 1 || done[0] != got[0].Ref {
		t.Errorf("answered %v, want %v", done, got[0].Ref)
	}
	r := f.result(again.ID)
	if !r.Cached || r.CachedFrom != first.Job || r.ID != again.ID || r.BatchID != batch || r.Name != "again" || r.Outcome != job.Failed ||
		r.State != job.Finished || r.Stdout.Text != "out" || len(r.Attempts) != 0 {
		t.Errorf("its record: %+v", r)
	}
	if b := f.batch(batch); b.Outcomes[job.Failed] != 1 || b.Counts[job.Finished] != 1 || b.Counts[job.Dispatched] != 7 {
		t.Errorf("its batch: %+v", b)
	}
	if c := f.claim(got[0].Ref)[0]; c.Lease != 0 {
		t.Error("a job that was answered was claimed")
	}
	if done, err := f.Answer(ctx, got); err != nil || len(done) != 0 {
		t.Errorf("answered twice: %v, %v", done, err)
	}

	// An answer is no origin: the next job is answered from the first, too.
	j, d, err := f.SubmitJob(ctx, keyed("third", "k1"), store.Idempotency{}, 100)
	f.must(err)
	if d == nil || !d.Cacheable {
		t.Fatalf("dispatched at once: %+v", d)
	}
	if again, err := f.Unclaimed(ctx, 0, 10); err != nil || !slices.Contains(again, *d) {
		t.Errorf("to be published again: %+v, %v, want %+v among them", again, err, *d)
	}
	if got := f.repeats(d.Ref); len(got) != 1 || got[0].Origin != first.Job || got[0].Job != j {
		t.Errorf("repeats %+v", got)
	}

	// A claim that was faster wins.
	got = f.repeats(d.Ref)
	c := f.claim(d.Ref)[0]
	if done, err := f.Answer(ctx, got); err != nil || len(done) != 0 || c.Lease == 0 {
		t.Errorf("answered what runs: %v, %v, lease %d", done, err, c.Lease)
	}
	if again := f.repeats(d.Ref); len(again) != 0 {
		t.Errorf("a running job is a repeat: %+v", again)
	}
	f.finish(leaseOf(c), job.Succeeded)
	testRepeatsStayAtHome(f)
}

// The newest record of the same tenant counts. A retried batch gets no record, because the client asks for
// another run.
func testRepeatsStayAtHome(f *fixture) {
	ctx := f.Context()
	other := keyed("other", "k1")
	other.Tenant = "umbrella"
	f.submitJob(other)
	mine := keyed("mine", "k1")
	f.submitJob(mine)
	all, _ := f.refs()
	got := f.repeats(all...)
	if len(got) != 1 || got[0].Job != mine.ID || f.decode(got[0].Record).Outcome != job.Succeeded {
		f.Errorf("repeats %+v", got)
	}
	got[0].Job = other.ID // a request that no client can make
	if done, err := f.Answer(ctx, got); err != nil || len(done) != 0 {
		f.Errorf("answered with another tenant's record: %v, %v", done, err)
	}

	batch := f.submit(keyed("fails", "k3"))
	f.finishAll(job.Failed)
	retry, err := f.RetryBatch(ctx, batch, newBatch())
	f.must(err)
	all, cacheable := f.refs()
	if len(all) != 1 || len(cacheable) != 0 || len(f.repeats(all...)) != 0 {
		f.Errorf("the retry %s would be answered with the failure: %v", retry, cacheable)
	}
	canceled := keyed("canceled", "k3")
	f.submitJob(canceled)
	all, _ = f.refs()
	got = f.repeats(all...)
	_, err = f.Cancel(ctx, canceled.ID)
	f.must(err)
	if done, err := f.Answer(ctx, got); err != nil || len(done) != 0 || len(got) != 1 {
		f.Errorf("answered a canceled job: %v, %v", done, err)
	}
}
